package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/posthorn/posthorn/internal/publish"
	"github.com/posthorn/posthorn/internal/webhook"
)

const (
	mediaJSON  = "application/json"
	mediaLines = "application/x-ndjson"
	// linesTimeout is for the arrival of up to 16 MiB.
	linesTimeout = time.Minute
)

// eventInput describes what is posted. It is for the document alone: publishing
// reads the body itself (publish.ParseEvent), to keep the bytes of data.
type eventInput struct {
	ID          string          `json:"id,omitempty" doc:"Your own ID. The same ID with the same content is taken as a repeat, with other content it is refused. Without one the server makes an ID." min:"1" max:"128" pattern:"^[A-Za-z0-9_-][A-Za-z0-9_:-]{0,127}$" example:"order-4711-paid"`
	Type        string          `json:"type" min:"1" max:"128" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$" doc:"What happened. The server's own types (webhook.failed, endpoint.* …) can't be published." example:"link.created"`
	Data        json.RawMessage `json:"data" doc:"The payload: any JSON value, kept and sent byte for byte. The limit of an event counts its bytes." example:"{\"link_id\":\"lnk_2g3jQpRyXz4Mn8VbF7Hkl\"}"`
	CreatedAt   *stamp          `json:"created_at,omitempty" doc:"When it happened. Absent: now." example:"2026-05-22T14:32:18.847Z"`
	OrderingKey string          `json:"ordering_key,omitempty" min:"1" max:"256" doc:"Kept and shown; it orders deliveries under contracts that promise order." example:"lnk_2g3jQpRyXz4Mn8VbF7Hkl"`
	DeliverAt   *stamp          `json:"deliver_at,omitempty" doc:"Not sent before this time, 30 days ahead at most." example:"2026-05-22T15:00:00.000Z"`
	ExpiresAt   *stamp          `json:"expires_at,omitempty" doc:"Not sent from this time on." example:"2026-05-23T00:00:00.000Z"`
}

// wireAccepted is the answer to one accepted event.
type wireAccepted struct {
	ID         string `json:"id" example:"evt_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Deliveries int    `json:"deliveries" doc:"How many endpoints it goes to." example:"2"`
}

// wireLine is one line of the answer to NDJSON.
type wireLine struct {
	Line            int          `json:"line" doc:"The line of the body, from 1." example:"1"`
	ID              string       `json:"id,omitempty" example:"evt_01k8x3m5t2f4v9z7q1c6b8n0da"`
	Status          int          `json:"status" doc:"202 accepted, 200 a repeat, else refused." example:"202"`
	Deliveries      *int         `json:"deliveries,omitempty" example:"2"`
	Code            webhook.Code `json:"code,omitempty" doc:"Of a refused line." example:"invalid_field"`
	Detail          string       `json:"detail,omitempty" doc:"Of a refused line." example:"One field of the request can't be taken."`
	FirstAcceptedAt *stamp       `json:"first_accepted_at,omitempty" doc:"With conflict_id." example:"2026-05-22T14:32:18.847Z"`
	Errors          []wireFault  `json:"errors,omitempty" doc:"Of a refused line: the fields concerned."`
}

func (a *API) publishOperation() *operation {
	count := &schema{Type: types{typeInteger}}
	key := param{name: "Idempotency-Key", in: "header", example: "4f6c2c1e", schema: &schema{Type: types{typeString}, MinLength: 1, MaxLength: 1024},
		description: "For events without an id: the same key gives the same event, by line for NDJSON."}
	take := a.schemas.request(reflect.TypeFor[eventInput]())
	accepted := a.schemas.of(reflect.TypeFor[wireAccepted]())
	line := a.schemas.of(reflect.TypeFor[wireLine]())
	return &operation{
		id: "publishEvents", method: http.MethodPost, path: "/v1/events", tag: "events", scope: webhook.ScopePublish, tenancy: tenantOne,
		summary: "Publish one event, or many as NDJSON",
		description: "The answer comes once the event and its deliveries are stored durably. " +
			"As application/x-ndjson the body has an event a line; the answer is always 200 and has a line for each line of the body, in order. Lines stand for themselves: one refused line does not hold back another. " +
			"Repeating a request is safe where events have an id or the request an Idempotency-Key.",
		// The schema is left out of the checks: the parser keeps bytes.
		body:     &body{types: []string{mediaJSON, mediaLines}, limit: publish.MaxLinesBytes, timeout: linesTimeout, bound: a.boundPublished, lines: take, example: map[string]any{"type": "link.created", "data": map[string]any{"link_id": "lnk_2g3jQpRyXz4Mn8VbF7Hkl"}}},
		params:   []param{key},
		refusals: []webhook.Code{webhook.CodeConflictID, webhook.CodeInvalidField, webhook.CodeOverloaded},
		handle:   a.publish,
		answers: []answer{
			{status: 202, description: "The event is stored and will be delivered.", schema: accepted},
			{status: 200, description: "The event was accepted before; or the results of NDJSON.", schema: accepted, headers: []answerHeader{
				{"Posthorn-Replayed", "true for an event that was accepted before.", &schema{Type: types{typeString}}},
				{"Posthorn-Accepted", "With NDJSON: how many lines were accepted, repeats included.", count},
				{"Posthorn-Refused", "With NDJSON: how many lines were refused.", count},
			}},
			{status: 200, description: "The results, a line each.", schema: line, mediaType: mediaLines},
		},
	}
}

// publish takes one event or many. It is written by hand, since every event
// passes here: no document is built, and data is never decoded.
func (a *API) publish(c *call) (reply, error) {
	key, err := idempotencyKey(c.r)
	if err != nil {
		return reply{}, err
	}
	if isLines(c.r) {
		return a.publishLines(c, key)
	}
	e, err := publish.ParseEvent(c.body, a.cfg.Limits, c.now)
	if err != nil {
		return reply{}, err
	}
	if e.ID == "" && key != "" {
		e.ID = publish.DeriveID(c.tenant, key, 1)
	}
	results, err := a.cfg.Publisher.Publish(c.r.Context(), c.tenant, []publish.Event{e})
	if err != nil {
		return reply{}, err
	}
	return acceptedReply(&results[0])
}

// boundPublished is the limit of a publishing request's body.
func (a *API) boundPublished(r *http.Request) (int64, error) {
	if isLines(r) {
		return publish.MaxLinesBytes, publish.LinesTooLarge()
	}
	return int64(a.cfg.Limits.BodyBytes()), a.cfg.Limits.BodyTooLarge()
}

func isLines(r *http.Request) bool {
	given := r.Header.Get("Content-Type")
	return given != mediaJSON && checkMediaType(given, []string{mediaLines}) == nil
}

func acceptedReply(result *publish.Result) (reply, error) {
	if result.Err != nil {
		return reply{}, &publishError{result}
	}
	text := make([]byte, 0, 192)
	text = append(text, `{"id":"`...)
	text = append(text, result.ID...) // of the form of event IDs: nothing to escape
	text = append(text, `","deliveries":`...)
	text = strconv.AppendInt(text, int64(result.Deliveries), 10)
	text = append(text, "}\n"...)
	out := reply{status: http.StatusAccepted, raw: text, mediaType: mediaJSON}
	if result.Replayed {
		out.status, out.header = http.StatusOK, http.Header{"Posthorn-Replayed": {"true"}}
	}
	return out, nil
}

// publishError carries when the conflicting event was accepted to the answer.
type publishError struct{ result *publish.Result }

// Error implements error.
func (e *publishError) Error() string { return e.result.Err.Error() }

// Unwrap leads to the problem.
func (e *publishError) Unwrap() error { return e.result.Err }

// idempotencyKey is "" when there is none.
func idempotencyKey(r *http.Request) (string, error) {
	values := r.Header["Idempotency-Key"]
	if len(values) == 0 {
		return "", nil
	}
	return values[0], publish.CheckKey(values[0])
}

// publishLines takes NDJSON: what parses is accepted, line by line.
func (a *API) publishLines(c *call, key string) (reply, error) {
	lines, err := publish.ParseLines(c.body, a.cfg.Limits, c.now)
	if err != nil {
		return reply{}, err
	}
	events := make([]publish.Event, 0, len(lines))
	for i := range lines {
		l := &lines[i]
		if l.Err != nil {
			continue
		}
		if l.Event.ID == "" && key != "" {
			l.Event.ID = publish.DeriveID(c.tenant, key, l.Number)
		}
		events = append(events, l.Event)
	}
	var results []publish.Result
	if len(events) > 0 {
		if results, err = a.cfg.Publisher.Publish(c.r.Context(), c.tenant, events); err != nil {
			return reply{}, err
		}
	}
	return a.linesReply(c, lines, results)
}

func (a *API) linesReply(c *call, lines []publish.Line, results []publish.Result) (reply, error) {
	text := []byte{} // of no lines, too, it has a type
	accepted, next := 0, 0
	for i := range lines {
		shown := wireLine{Line: lines[i].Number}
		err := lines[i].Err
		if err == nil {
			result := &results[next]
			next++
			if err = result.Err; err != nil {
				err = &publishError{result}
			} else {
				accepted++
				shown.ID, shown.Deliveries, shown.Status = result.ID, &result.Deliveries, http.StatusAccepted
				if result.Replayed {
					shown.Status = http.StatusOK
				}
			}
		}
		if err != nil {
			doc := a.problemOf(c.r.Context(), c.op.id, err)
			shown.Status, shown.Code, shown.Detail, shown.Errors, shown.FirstAcceptedAt = doc.Status, doc.Code, doc.Detail, doc.Errors, doc.FirstAcceptedAt
		}
		line, err := encode(shown)
		if err != nil {
			return reply{}, err
		}
		text = append(append(text, line...), '\n')
	}
	return reply{status: http.StatusOK, raw: text, mediaType: mediaLines, header: http.Header{
		"Posthorn-Accepted": {strconv.Itoa(accepted)}, "Posthorn-Refused": {strconv.Itoa(len(lines) - accepted)},
	}}, nil
}

// firstAccepted finds when the event of a conflict was accepted.
func firstAccepted(err error) *stamp {
	failed, ok := errors.AsType[*publishError](err)
	if !ok {
		return nil
	}
	return stampOrNull(failed.result.FirstAcceptedAt)
}
