package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// fakeDB is a store in memory that keeps to the doc comments of store.Lanes:
// one writer that commits what is queued together, compare-and-set transitions,
// changes handed out after each commit and before its callers are answered. It
// outlives processes; a process sees it through a session.
type fakeDB struct {
	mu        sync.Mutex
	rows      map[webhook.Ref]*row
	last      webhook.Ref
	endpoints map[webhook.EndpointKey]*webhook.Endpoint // change with keep
	gates     map[webhook.GateKey]store.GateMove
	lines     map[line][]webhook.Ref
	catching  map[webhook.EndpointKey]*catchUp
	subs      subscriptions
	events    map[string]store.AcceptParams // operational ones, by ID
	onChange  func(store.Change)

	wake  chan struct{}
	queue []*write
	gone  bool // the writer has ended

	// Faults and delays, guarded by mu.
	commitTakes time.Duration
	readTakes   time.Duration // between a read's snapshot and its return
	markTakes   time.Duration // before marks are queued
	loadTakes   time.Duration
	stalled     bool
	failRecord  func(p *store.RecordParams) error // before the commit; nothing stands
	afterRecord func(p *store.RecordParams) error // after it; all stands, the answer is lost
	failRead    func() error
	failLoad    func(webhook.Ref) error

	reads, marks atomic.Int64
}

type row struct {
	work   store.Work
	data   []byte
	status contract.Status
	reason webhook.Reason
	kind   contract.FailureKind
	log    []webhook.Attempt
	mark   *store.Mark
	health []bool
	ended  time.Time // when it became final
}

// end makes a row final, if it is not.
func (r *row) end(s contract.Status, why webhook.Reason) {
	r.status, r.reason, r.mark, r.ended = s, why, nil, time.Now()
}

// write is one piece of work for the writer: apply runs inside the commit,
// answer after it.
type write struct {
	session *session
	apply   func() []store.Change
	answer  func(error)
}

// session is one process's view of the database; it implements store.Lanes.
type session struct {
	db     *fakeDB
	closed bool // guarded by db.mu
}

func newFakeDB(ctx context.Context) *fakeDB {
	db := &fakeDB{
		rows:      map[webhook.Ref]*row{},
		endpoints: map[webhook.EndpointKey]*webhook.Endpoint{},
		gates:     map[webhook.GateKey]store.GateMove{},
		lines:     map[line][]webhook.Ref{},
		catching:  map[webhook.EndpointKey]*catchUp{},
		events:    map[string]store.AcceptParams{},
		onChange:  func(store.Change) {},
		wake:      make(chan struct{}, 1),
	}
	go db.writer(ctx)
	return db
}

func (db *fakeDB) enqueue(w *write) {
	db.mu.Lock()
	gone := db.gone
	if !gone {
		db.queue = append(db.queue, w)
	}
	db.mu.Unlock()
	if gone {
		w.answer(store.ErrClosed)
		return
	}
	db.kick()
}

func (db *fakeDB) kick() {
	select {
	case db.wake <- struct{}{}:
	default:
	}
}

func (db *fakeDB) stall(on bool) {
	db.mu.Lock()
	db.stalled = on
	db.mu.Unlock()
	db.kick()
}

func (db *fakeDB) writer(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			db.mu.Lock()
			rest := db.queue
			db.queue, db.gone = nil, true
			db.mu.Unlock()
			for _, w := range rest {
				w.answer(store.ErrClosed)
			}
			return
		case <-db.wake:
			db.mu.Lock()
			takes := db.commitTakes
			db.mu.Unlock()
			if takes > 0 {
				time.Sleep(takes)
			}
			db.commit()
		}
	}
}

func (db *fakeDB) commit() {
	db.mu.Lock()
	if db.stalled {
		db.mu.Unlock()
		return
	}
	batch := db.queue
	db.queue = nil
	errs := make([]error, len(batch))
	var changes []store.Change
	for i, w := range batch {
		if w.session != nil && w.session.closed {
			errs[i] = store.ErrClosed
			continue
		}
		changes = append(changes, w.apply()...)
	}
	onChange := db.onChange
	db.mu.Unlock()
	for _, ch := range changes {
		onChange(ch)
	}
	for i, w := range batch {
		w.answer(errs[i])
	}
}

// do runs a caller's write and waits for its commit.
func (db *fakeDB) do(apply func() []store.Change) {
	done := make(chan struct{})
	db.enqueue(&write{apply: apply, answer: func(error) { close(done) }})
	<-done
}

func (db *fakeDB) addEndpoint(e *webhook.Endpoint) {
	db.do(func() []store.Change {
		return []store.Change{db.keep(e)}
	})
}

func (db *fakeDB) changeEndpoint(key webhook.EndpointKey, change func(*webhook.Endpoint)) {
	db.do(func() []store.Change {
		e := *db.endpoints[key]
		change(&e)
		e.Version++
		return []store.Change{db.keep(&e)}
	})
}

func (db *fakeDB) setState(key webhook.EndpointKey, state webhook.EndpointState) {
	db.changeEndpoint(key, func(e *webhook.Endpoint) { e.State = state })
}

func (db *fakeDB) deleteEndpoint(key webhook.EndpointKey) {
	db.do(func() []store.Change {
		for _, r := range db.rows {
			if r.work.Endpoint == key && !r.status.Final() {
				r.end(contract.StatusCanceled, webhook.WhyEndpointDeleted)
			}
		}
		return []store.Change{db.forget(key)}
	})
}

func (db *fakeDB) cancel(ref webhook.Ref) {
	db.do(func() []store.Change {
		r := db.rows[ref]
		if r.status.Final() {
			return nil
		}
		r.end(contract.StatusCanceled, webhook.WhyCanceled)
		return append([]store.Change{{Canceled: []webhook.Ref{ref}}}, db.promote(r)...)
	})
}

// template is what accept makes a delivery from.
type template struct {
	endpoint  webhook.EndpointKey
	eventType string
	data      []byte
	due       time.Time
	expires   time.Time
	trigger   contract.Trigger
	contract  string
	byPerson  bool
	key       string // it stands in line
	joins     bool   // when its time has come
}

// accept commits deliveries and returns what is to be handed over.
func (db *fakeDB) accept(templates ...template) []store.Work {
	var fresh []store.Work
	db.do(func() []store.Change {
		for _, t := range templates {
			fresh = append(fresh, db.insert(t))
		}
		return nil
	})
	return fresh
}

func (db *fakeDB) insert(t template) store.Work {
	db.last++
	e := db.endpoints[t.endpoint]
	w := store.Work{
		Ref: db.last, Endpoint: t.endpoint, Tenant: "default",
		DeliveryID: fmt.Sprintf("dlv_%d", db.last), EventID: fmt.Sprintf("evt_%d", db.last),
		Type: cmp.Or(t.eventType, "link.created"), CreatedAt: t.due,
		Data: t.data, DataSize: len(t.data),
		Contract: cmp.Or(t.contract, contract.Standard), ContractRevision: "1",
		Trigger: cmp.Or(t.trigger, contract.TriggerEvent), Round: 1,
		Due: t.due, ExpiresAt: t.expires,
		Seat: db.last, ByPerson: t.byPerson, Key: t.key, Joins: t.joins,
	}
	if t.byPerson {
		w.Due = store.PersonDue(w.Seat)
	}
	if e != nil && t.contract == "" && e.Contract != "" {
		w.Contract = e.Contract
	}
	if t.key != "" && !t.joins && !db.join(&w) {
		w.Due = store.ParkedDue()
	}
	db.rows[w.Ref] = &row{work: w, data: t.data, status: contract.StatusPending}
	return w
}

// ListLanes implements store.Lanes.
func (s *session) ListLanes(context.Context) ([]store.LaneHead, error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	heads := map[webhook.EndpointKey]time.Time{}
	for _, r := range s.db.rows {
		if !r.status.Final() && !store.IsParked(r.work.Due) {
			heads[r.work.Endpoint] = earlier(heads[r.work.Endpoint], r.work.Due)
		}
	}
	var out []store.LaneHead
	for key, due := range heads {
		out = append(out, store.LaneHead{Endpoint: key, Due: due})
	}
	return out, nil
}

// ReadWindow implements store.Lanes.
func (s *session) ReadWindow(ctx context.Context, p store.WindowParams) (store.Window, error) {
	w, takes, err := s.snapshot(p)
	if err != nil {
		return store.Window{}, err
	}
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return store.Window{}, ctx.Err()
		}
	}
	return w, nil
}

func (s *session) snapshot(p store.WindowParams) (store.Window, time.Duration, error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.db.reads.Add(1)
	if s.closed {
		return store.Window{}, 0, store.ErrClosed
	}
	if s.db.failRead != nil {
		if err := s.db.failRead(); err != nil {
			return store.Window{}, 0, err
		}
	}
	var due []*row
	var w store.Window
	e := s.db.endpoints[p.Endpoint]
	w.CatchingUp = e != nil && e.CatchingUp
	for _, r := range s.db.rows {
		switch {
		case r.status.Final(), r.work.Endpoint != p.Endpoint, store.IsParked(r.work.Due):
		case w.CatchingUp && !store.IsSeat(r.work.Due):
		case r.work.Due.After(p.Now):
			w.NextDue = earlier(w.NextDue, r.work.Due)
		default:
			due = append(due, r)
		}
	}
	slices.SortFunc(due, func(a, b *row) int {
		return cmp.Or(a.work.Due.Compare(b.work.Due), cmp.Compare(a.work.Ref, b.work.Ref))
	})
	w.Complete = len(due) < p.Limit && !w.CatchingUp
	if !w.Complete {
		due, w.NextDue = due[:min(p.Limit, len(due))], time.Time{}
	}
	bytes := 0
	for _, r := range due {
		work := r.work
		work.Data = nil
		if work.DataSize <= p.MaxData && bytes+work.DataSize <= p.Bytes && !work.Erased {
			work.Data = r.data
			bytes += work.DataSize
		}
		w.Work = append(w.Work, work)
	}
	return w, s.db.readTakes, nil
}

// LoadData implements store.Lanes.
func (s *session) LoadData(_ context.Context, ref webhook.Ref) ([]byte, error) {
	s.db.mu.Lock()
	takes := s.db.loadTakes
	s.db.mu.Unlock()
	if takes > 0 {
		time.Sleep(takes)
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	r := s.db.rows[ref]
	switch {
	case s.closed:
		return nil, store.ErrClosed
	case r == nil || r.work.Erased:
		return nil, store.ErrNotFound
	case s.db.failLoad != nil:
		if err := s.db.failLoad(ref); err != nil {
			return nil, err
		}
	}
	return r.data, nil
}

// Record implements store.Lanes.
func (s *session) Record(p store.RecordParams, done func(store.RecordResult, error)) {
	var result store.RecordResult
	var err error
	s.db.enqueue(&write{
		session: s,
		apply: func() (changes []store.Change) {
			result, changes, err = s.db.record(&p)
			return changes
		},
		answer: func(writeErr error) { done(result, cmp.Or(writeErr, err)) },
	})
}

func (db *fakeDB) record(p *store.RecordParams) (store.RecordResult, []store.Change, error) {
	if db.failRecord != nil {
		if err := db.failRecord(p); err != nil {
			return store.RecordResult{}, nil, err
		}
	}
	r := db.rows[p.Ref]
	if r == nil {
		return store.RecordResult{}, nil, store.ErrNotFound
	}
	for i := range p.Emit {
		db.fresh(&p.Emit[i])
	}
	result, changes := db.transition(r, p)
	if db.afterRecord != nil {
		if err := db.afterRecord(p); err != nil {
			return store.RecordResult{}, changes, err
		}
	}
	return result, changes, nil
}

func (db *fakeDB) transition(r *row, p *store.RecordParams) (store.RecordResult, []store.Change) {
	w := &r.work
	applies := !r.status.Final() && w.Round == p.Round && w.Attempts == p.Attempts && (!p.Join || w.Joins)
	absorbs := !applies && !r.status.Final() && p.Delivered()
	if p.Attempt != nil {
		a := *p.Attempt
		a.Number, a.Superseded = len(r.log)+1, !applies
		r.log = append(r.log, a)
		w.Rows++
	}
	if !applies && !absorbs {
		return store.RecordResult{}, nil
	}
	r.status, r.reason, r.kind, r.mark = p.Status, p.Reason, p.FailureKind, nil
	var changes []store.Change
	if p.Gate != nil {
		db.move(*p.Gate)
	}
	if r.status.Final() {
		r.end(r.status, r.reason)
		changes = db.promote(r)
	}
	if absorbs {
		return store.RecordResult{Absorbed: true}, changes
	}
	if p.Join {
		w.Joins = false
		if w.Due = p.NextAt; !db.join(w) {
			w.Due = store.ParkedDue()
			return store.RecordResult{Applied: true}, nil
		}
		return store.RecordResult{Applied: true}, []store.Change{{Accepted: []store.Work{*w}}}
	}
	w.Interrupted = p.Interrupted
	if p.Attempt != nil && p.Attempt.Counted {
		w.Attempts++
	}
	if p.Status == contract.StatusPending {
		w.Due = p.NextAt
	}
	if p.Counts {
		r.health = append(r.health, p.Delivered())
	}
	return store.RecordResult{Applied: true}, append(changes, db.consequences(p)...)
}

// MarkRunning implements store.Lanes.
func (s *session) MarkRunning(_ context.Context, marks []store.Mark) error {
	s.db.mu.Lock()
	takes := s.db.markTakes
	s.db.mu.Unlock()
	if takes > 0 {
		time.Sleep(takes)
	}
	done := make(chan error, 1)
	s.db.enqueue(&write{
		session: s,
		apply: func() []store.Change {
			s.db.marks.Add(int64(len(marks)))
			for _, m := range marks {
				r := s.db.rows[m.Ref]
				if r != nil && !r.status.Final() && r.work.Round == m.Round && r.work.Attempts == m.Attempts {
					r.mark = &m
				}
			}
			return nil
		},
		answer: func(err error) { done <- err },
	})
	return <-done
}

// ListMarks implements store.Lanes.
func (s *session) ListMarks(context.Context) ([]store.Marked, error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	var out []store.Marked
	for _, r := range s.db.rows {
		if r.mark != nil {
			out = append(out, store.Marked{Mark: *r.mark, Work: r.work})
		}
	}
	return out, nil
}

// kill ends a process as kill -9 does: nothing that is not committed will be.
func (s *session) kill() {
	s.db.mu.Lock()
	s.closed = true
	s.db.mu.Unlock()
}

var errDisk = errors.New("disk said no")

// get copies a row out.
func (db *fakeDB) get(ref webhook.Ref) row {
	db.mu.Lock()
	defer db.mu.Unlock()
	r := *db.rows[ref]
	r.log = slices.Clone(r.log)
	return r
}

func (db *fakeDB) set(change func()) {
	db.mu.Lock()
	defer db.mu.Unlock()
	change()
}

// count counts rows by status.
func (db *fakeDB) count() map[contract.Status]int {
	db.mu.Lock()
	defer db.mu.Unlock()
	out := map[contract.Status]int{}
	for _, r := range db.rows {
		out[r.status]++
	}
	return out
}
