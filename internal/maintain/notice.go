package maintain

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/catalog"
	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/store"
)

const (
	// noticeBatch is how many notices are read at once, noticesAtOnce how many are
	// told at a time, noticeTimeout the most that telling one address may take.
	noticeBatch   = 64
	noticesAtOnce = 16
	noticeTimeout = 30 * time.Second
	// noticeRest is between two looks without a nudge, and after a store's fault.
	noticeRest = time.Minute
)

// Post sends a request to an owner's URL by the guarded way: no address that
// webhooks may not reach, no redirect. An error means that no status came; it
// holds no URL.
type Post func(ctx context.Context, url string, body []byte, header http.Header) (status int, err error)

// Mailer sends mail. An error that is ErrMailRefused is final; none holds a
// secret.
type Mailer interface {
	Send(ctx context.Context, m Mail) error
}

// Mail is a plain text to one address.
type Mail struct {
	// ID is the same each time the same mail is sent.
	ID      string
	To      string
	Subject string
	Body    string
	// At is when it is sent, by the wall clock.
	At time.Time
}

// OwnersConfig is what Owners work with.
type OwnersConfig struct {
	Store store.Notices
	Post  Post
	// Mail is nil where no mail server is set.
	Mail Mailer
	// Contract finds the present revision of a contract; nil where there is none.
	Contract func(name string) *contract.Contract
	Texts    catalog.Texts
	// TimeLapse divides the waits between tries (N21); 0 is 1.
	TimeLapse int
	Random    func() float64
	Clock     *clock.Clock
	Log       *slog.Logger
}

// Owners tells tenants' owners what became of their endpoints (N19, E8), each
// thing once per address. What fails is tried again on the waits of the standard
// contract, then given up with a line in the log. A crash between telling and
// writing that down tells twice, with the same ID.
type Owners struct {
	cfg OwnersConfig
	service
	wake  chan struct{}
	waits *contract.Contract

	mu sync.Mutex
	// half are the notices that are still in the store though an address was done
	// with: the other failed, or the store did.
	half map[int64]addresses

	mailMissing       atomic.Bool
	told, failed, off atomic.Int64
}

// addresses of an owner that are done with, told or given up.
type addresses struct{ url, mail bool }

// OwnersStats is what can be shown of it.
type OwnersStats struct {
	// Told, Failed and GivenUp count tries since the start by what came of them.
	Told, Failed, GivenUp int64
	// MailMissing: an owner has a mail address, and no mail server is set.
	MailMissing bool
}

// NewOwners makes the service.
func NewOwners(cfg OwnersConfig) *Owners {
	standard, _ := contract.Builtin(contract.Standard)
	return &Owners{cfg: cfg, wake: make(chan struct{}, 1), waits: standard, half: map[int64]addresses{}}
}

// Start begins; it may be started again after Stop.
func (o *Owners) Start() { o.begin(o.Run) }

// Stop ends the service; what is under way is cut and told again later.
func (o *Owners) Stop() { o.end() }

// Nudge says that there may be a new notice. It does not block.
func (o *Owners) Nudge() { nudge(o.wake) }

// Stats tells how it goes.
func (o *Owners) Stats() OwnersStats {
	return OwnersStats{Told: o.told.Load(), Failed: o.failed.Load(), GivenUp: o.off.Load(), MailMissing: o.mailMissing.Load()}
}

// Run works until ctx ends or the store is closed.
func (o *Owners) Run(ctx context.Context) {
	for {
		rest, err := o.runOnce(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, store.ErrClosed):
			return
		case err != nil:
			o.cfg.Log.Warn("telling owners was cut; it goes on later", slog.Duration("after", noticeRest), slog.Any("error", err))
			if _, ok := pause(ctx, noticeRest, nil); !ok {
				return
			}
			continue
		}
		if _, ok := pause(ctx, rest, o.wake); !ok {
			return
		}
	}
}

// runOnce tells what is due and returns how long there is nothing to do.
func (o *Owners) runOnce(ctx context.Context) (time.Duration, error) {
	now := o.now()
	due, next, err := o.cfg.Store.DueNotices(ctx, now, noticeBatch)
	if err != nil {
		return 0, err
	}
	var g errgroup.Group
	g.SetLimit(noticesAtOnce)
	for i := range due {
		g.Go(func() error { return o.tell(ctx, &due[i]) })
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	switch {
	case len(due) > 0:
		return 0, nil // next may be older than what has just been planned
	case next.IsZero():
		return noticeRest, nil
	default:
		return min(noticeRest, max(next.Sub(o.now()), leastRest)), nil
	}
}

// now is the later of both clocks: notices bear wall times, and a clock that was
// set back must not hold back those that were made before.
func (o *Owners) now() time.Time { return later(o.cfg.Clock.Wall(), o.cfg.Clock.Now().Round(0)) }

// fate is what came of telling one address.
type fate int

const (
	fateDone  fate = iota // told, or nobody to tell
	fateGone              // given up
	fateAgain             // failed, to be tried again
)

// tell tells one notice and settles it.
func (o *Owners) tell(ctx context.Context, n *store.Notice) error {
	m, ok := o.compose(n)
	if !ok {
		return o.settle(ctx, n, time.Time{})
	}
	o.mu.Lock()
	done := o.half[n.ID]
	o.mu.Unlock()

	var again time.Time
	try := func(to string, is *bool, tell func(context.Context, *store.Notice, message) (fate, time.Time)) {
		if to == "" || *is {
			return
		}
		telling, cancel := context.WithTimeout(ctx, noticeTimeout)
		defer cancel()
		f, at := tell(telling, n, m)
		*is = f != fateAgain
		if f == fateAgain {
			again = later(again, at)
		}
	}
	try(n.Tenant.OwnerURL, &done.url, o.post)
	try(n.Tenant.OwnerEmail, &done.mail, o.mail)
	if ctx.Err() != nil {
		return ctx.Err() // cut by Stop, which is nobody's failure: it stays due
	}
	if done.url || done.mail {
		o.mu.Lock()
		o.half[n.ID] = done
		o.mu.Unlock()
	}
	return o.settle(ctx, n, again)
}

func (o *Owners) settle(ctx context.Context, n *store.Notice, again time.Time) error {
	if err := o.cfg.Store.SettleNotice(ctx, n.ID, again); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if again.IsZero() {
		o.mu.Lock()
		delete(o.half, n.ID)
		o.mu.Unlock()
	}
	return nil
}

// post tells an owner's URL.
func (o *Owners) post(ctx context.Context, n *store.Notice, m message) (fate, time.Time) {
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set("webhook-id", m.id)
	status, err := o.cfg.Post(ctx, n.Tenant.OwnerURL, m.body, header)
	if quoting, ok := errors.AsType[*url.Error](err); ok {
		err = quoting.Err // without the URL
	}
	answer := contract.Answer{Kind: contract.KindNetwork}
	if err == nil {
		answer = contract.Answer{Kind: o.waits.Classify(status), StatusCode: status}
	}
	to := ""
	if u, parsed := url.Parse(n.Tenant.OwnerURL); parsed == nil {
		to = u.Hostname()
	}
	said := slog.Int("status", status)
	if err != nil {
		said = slog.Any("error", err)
	}
	return o.judge(n, answer, slog.Group("to", slog.String("host", to), said))
}

// mail tells an owner's mail address.
func (o *Owners) mail(ctx context.Context, n *store.Notice, m message) (fate, time.Time) {
	if o.cfg.Mail == nil {
		if o.mailMissing.CompareAndSwap(false, true) {
			o.cfg.Log.Warn("an owner is to be told by mail, but no mail server is set (POSTHORN_SMTP_URL); no mail is sent",
				slog.String("tenant", n.Tenant.ID))
		}
		return fateGone, time.Time{}
	}
	err := o.cfg.Mail.Send(ctx, Mail{ID: m.id, To: n.Tenant.OwnerEmail, Subject: m.subject, Body: m.text, At: o.cfg.Clock.Wall()})
	answer := contract.Answer{}
	switch {
	case errors.Is(err, ErrMailRefused):
		answer.Kind = contract.KindGone
	case err != nil:
		answer.Kind = contract.KindNetwork
	}
	return o.judge(n, answer, slog.Group("to", slog.String("by", "mail"), slog.Any("error", err)))
}

// judge asks the standard contract what a try comes to, as for a delivery.
func (o *Owners) judge(n *store.Notice, a contract.Answer, to slog.Attr) (fate, time.Time) {
	now := o.now()
	d := o.waits.After(contract.Tried{
		Terms: contract.Terms{Trigger: contract.TriggerEvent}, Try: n.Tries + 1, Answer: a, EndpointOn: true, EndedAt: now,
	}, o.cfg.Random())
	endpoint := slog.String("endpoint", n.Endpoint.ID)
	switch {
	case d.Status == contract.StatusDelivered:
		o.told.Add(1)
		return fateDone, time.Time{}
	case d.Status.Final():
		o.off.Add(1)
		o.cfg.Log.Warn("an owner could not be told and is told no more", slog.String("tenant", n.Tenant.ID), endpoint,
			slog.String("became", string(n.Became)), slog.Int("tries", n.Tries+1), to)
		return fateGone, time.Time{}
	default:
		o.failed.Add(1)
		if n.Tries == 0 {
			o.cfg.Log.Info("an owner could not be told; it is tried again", slog.String("tenant", n.Tenant.ID), endpoint, to)
		}
		return fateAgain, now.Add(d.Wait / time.Duration(max(o.cfg.TimeLapse, 1)))
	}
}
