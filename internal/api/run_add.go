package api

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/posthorn/posthorn/internal/publish"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// What one commit of a run's events holds at most: the writer serves others too
// (N25).
const (
	runSliceEvents = 100
	runSliceBytes  = 1 << 20
)

// maxRunTypes bounds the types of a run's events: it is counted by type, in its
// notice too.
const maxRunTypes = 1000

// runEventInput describes a line of what a run takes. It is for the document
// alone: the body is read as in publishing, to keep the bytes of data.
type runEventInput struct {
	ID        string          `json:"id,omitempty" doc:"Your own ID. One that the run has already is left out. Without one the server makes an ID." min:"1" max:"128" pattern:"^[A-Za-z0-9_-][A-Za-z0-9_:-]{0,127}$" example:"order-4711-paid"`
	Type      string          `json:"type" min:"1" max:"128" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$" doc:"What happened." example:"link.created"`
	Data      json.RawMessage `json:"data" doc:"The payload: any JSON value, kept and handed out byte for byte." example:"{\"link_id\":\"lnk_2g3jQpRyXz4Mn8VbF7Hkl\"}"`
	CreatedAt *stamp          `json:"created_at,omitempty" doc:"When it happened. Absent: now." example:"2026-05-22T14:32:18.847Z"`
}

func (a *API) addRunEventsOperation() *operation {
	count := &schema{Type: types{typeInteger}}
	key := param{name: "Idempotency-Key", in: "header", example: "4f6c2c1e", schema: &schema{Type: types{typeString}, MinLength: 1, MaxLength: 1024},
		description: "For events without an id: the same key gives the same events, by line."}
	return &operation{
		id: "addRunEvents", method: http.MethodPost, path: "/v1/runs/{id}/events", tag: "runs", scope: webhook.ScopePublish, tenancy: tenantOne,
		summary: "Add events to a run", handle: a.addRunEvents, params: []param{key},
		description: "As application/x-ndjson, an event a line: id, type, data, created_at. The answer has a line for each line of the body, in order; one refused line does not hold back another. " +
			"Any number of requests may add to a run, in the order in which they come. Repeating a request is safe where events have an id or the request an Idempotency-Key. " +
			"A line that the run had before has the status 200 in the repeat of a whole request; where new lines stand beside it, it may have 202 as they do. Posthorn-Repeated always counts right.",
		body:     &body{types: []string{mediaLines}, limit: publish.MaxLinesBytes, timeout: linesTimeout, bound: boundLines, lines: a.schemas.request(reflect.TypeFor[runEventInput]())},
		refusals: []webhook.Code{webhook.CodeConflict, webhook.CodeRunGone},
		answers: []answer{{
			status: 200, description: "The results, a line each.", schema: a.schemas.of(reflect.TypeFor[wireLine]()), mediaType: mediaLines, headers: []answerHeader{
				{"Posthorn-Accepted", "How many lines the run has now, those that it had before included.", count},
				{"Posthorn-Repeated", "How many of the accepted lines the run had before.", count},
				{"Posthorn-Refused", "How many lines were refused.", count},
			},
		}},
	}
}

func boundLines(*http.Request) (int64, error) { return publish.MaxLinesBytes, publish.LinesTooLarge() }

// addRunEvents adds what parses, line by line, a slice a commit.
func (a *API) addRunEvents(c *call) (reply, error) {
	key, err := idempotencyKey(c.r)
	if err != nil {
		return reply{}, err
	}
	r, err := a.cfg.Store.GetRun(c.r.Context(), c.tenant, c.id())
	if err != nil {
		return reply{}, err
	}
	if err := takesEvents(r); err != nil {
		return reply{}, err
	}
	lines, err := publish.ParseLines(c.body, a.cfg.Limits, c.now)
	if err != nil {
		return reply{}, err
	}
	results := make([]publish.Result, len(lines))
	kinds := runTypes{known: r.Counts.ByType, fresh: map[string]bool{}}
	var events []webhook.RunEvent
	var at []*publish.Result
	for i := range lines {
		l := &lines[i]
		if results[i].Err = l.Err; l.Err == nil {
			results[i].Err = kinds.check(&l.Event)
		}
		if results[i].Err != nil {
			continue
		}
		e, err := a.runEvent(c, &l.Event, key, l.Number)
		if err != nil {
			return reply{}, err
		}
		results[i].ID = e.ID
		events, at = append(events, e), append(at, &results[i])
	}
	added := a.addToRun(c, events, at)
	return a.runLinesReply(c, lines, results, added)
}

// addToRun adds events, a slice a commit, writes down what became of each, and
// returns how many the run did not have before.
func (a *API) addToRun(c *call, events []webhook.RunEvent, results []*publish.Result) (added int) {
	seen := map[string]bool{}
	for start, end := 0, 0; start < len(events); start = end {
		end = runSlice(events, start)
		n, err := a.cfg.Store.AddRunEvents(c.r.Context(), c.tenant, c.id(), events[start:end])
		if err != nil {
			err = a.notAdded(c, err)
			for _, result := range results[start:] {
				result.Err = err
			}
			return added
		}
		added += n
		for _, result := range results[start:end] {
			// Of a slice the store says how many were new, not which.
			result.Replayed = n == 0 || seen[result.ID]
			seen[result.ID] = true
		}
	}
	return added
}

// runTypes are the types of a run's events: those that it has, and those that a
// request brings. Two requests at once don't see each other's.
type runTypes struct {
	known map[string]int
	fresh map[string]bool
}

// check refuses what can't be an event of the run.
func (t *runTypes) check(e *publish.Event) error {
	if err := plainRunEvent(e); err != nil {
		return err
	}
	if _, has := t.known[e.Type]; has || t.fresh[e.Type] {
		return nil
	}
	if len(t.known)+len(t.fresh) >= maxRunTypes {
		var found faults
		found.add("/type", limitRunTypes, "the run has events of as many types as it can have", "at most "+strconv.Itoa(maxRunTypes)+" types in a run: one of those that it has, or another run")
		return found.problem()
	}
	t.fresh[e.Type] = true
	return nil
}

// takesEvents refuses a run that is over.
func takesEvents(r *webhook.Run) error {
	switch r.State {
	case webhook.RunOpen:
		return nil
	case webhook.RunDeleted:
		return runGone()
	case webhook.RunFinished:
	}
	return webhook.NewProblem(webhook.CodeConflict, "the run is finished: it takes no more events")
}

// notAdded says why a slice could not be added; the run may have ended since the
// request began.
func (a *API) notAdded(c *call, err error) error {
	if !errors.Is(err, store.ErrNotEmpty) && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if r, read := a.cfg.Store.GetRun(c.r.Context(), c.tenant, c.id()); read == nil && takesEvents(r) != nil {
		return takesEvents(r)
	}
	return runGone()
}

// plainRunEvent refuses what only events of their own can have: a run's are
// fetched, not sent.
func plainRunEvent(e *publish.Event) error {
	var found faults
	for name, given := range map[string]bool{"ordering_key": e.OrderingKey != "", "deliver_at": !e.DeliverAt.IsZero(), "expires_at": !e.ExpiresAt.IsZero()} {
		if given {
			found.add("/"+name, webhook.CodeUnknownField, "events of a run have no such member", "id, type, data, created_at")
		}
	}
	return found.problem()
}

func (a *API) runEvent(c *call, e *publish.Event, key string, line int) (webhook.RunEvent, error) {
	out := webhook.RunEvent{ID: e.ID, Type: e.Type, CreatedAt: e.CreatedAt, Data: e.Data}
	if out.CreatedAt.IsZero() {
		out.CreatedAt = c.now.Truncate(time.Millisecond)
	}
	switch {
	case out.ID != "":
	case key != "":
		out.ID = publish.DeriveID(c.tenant, c.id()+" "+key, line)
	default:
		var random [10]byte
		if _, err := io.ReadFull(a.cfg.Rand, random[:]); err != nil {
			return out, err
		}
		out.ID = webhook.RandomID(webhook.PrefixEvent, c.now, random)
	}
	return out, nil
}

// runSlice ends the part of a list, from start on, that one commit takes.
func runSlice(events []webhook.RunEvent, start int) (end int) {
	bytes := 0
	for end = start; end < len(events) && end < start+runSliceEvents; end++ {
		if bytes += len(events[end].Data); bytes > runSliceBytes && end > start {
			break
		}
	}
	return end
}

func (a *API) runLinesReply(c *call, lines []publish.Line, results []publish.Result, added int) (reply, error) {
	text, refused := []byte{}, 0
	for i := range lines {
		shown := wireLine{Line: lines[i].Number, ID: results[i].ID, Status: http.StatusAccepted}
		if results[i].Replayed {
			shown.Status = http.StatusOK
		}
		if err := results[i].Err; err != nil {
			refused++
			doc := a.problemOf(c.r.Context(), c.op.id, err)
			shown = wireLine{Line: lines[i].Number, Status: doc.Status, Code: doc.Code, Detail: doc.Detail, Errors: doc.Errors}
		}
		line, err := encode(shown)
		if err != nil {
			return reply{}, err
		}
		text = append(append(text, line...), '\n')
	}
	return reply{status: http.StatusOK, raw: text, mediaType: mediaLines, header: http.Header{
		"Posthorn-Accepted": {strconv.Itoa(len(lines) - refused)}, "Posthorn-Refused": {strconv.Itoa(refused)},
		"Posthorn-Repeated": {strconv.Itoa(len(lines) - refused - added)},
	}}, nil
}
