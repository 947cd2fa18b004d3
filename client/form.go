package client

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// formed is a part of an answer that can tell what it lacks to be one of
// Posthorn's: almost any JSON would fit structs whose fields may be absent.
type formed interface {
	// lacks names a member that every such answer has; "" if it is there.
	lacks() string
}

// formError is a success whose body is not what Posthorn sends.
type formError struct {
	operation string // "GET /v1/events"
	server    string
	what      string
	cause     error
}

// Error implements error. What the other side sent is not quoted.
func (e *formError) Error() string {
	return fmt.Sprintf("the answer to %s is not what Posthorn sends (%s): is %s a Posthorn server?", e.operation, e.what, e.server)
}

// Unwrap returns what the decoder said.
func (e *formError) Unwrap() error { return e.cause }

func (c *Client) badForm(req call, what string, cause error) error {
	return &formError{operation: req.method + " " + req.path, server: c.base(), what: what, cause: cause}
}

// decode reads the answer of a call that succeeded into out; nil is for calls
// whose answer has no body.
func (c *Client) decode(req call, status int, body []byte, out any) error {
	if out == nil {
		if status != http.StatusNoContent {
			return c.badForm(req, "it should have no content", nil)
		}
		return nil
	}
	if raw, ok := out.(*[]byte); ok {
		*raw = body
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return c.badForm(req, "it is no JSON of that form", err)
	}
	if f, ok := out.(formed); ok {
		if name := f.lacks(); name != "" {
			return c.badForm(req, "it has no "+name, nil)
		}
	}
	return nil
}

// lacksID is for things that have an ID.
func lacksID(id string) string {
	if id == "" {
		return "id"
	}
	return ""
}

func (e Event) lacks() string    { return lacksID(e.ID) }
func (a Accepted) lacks() string { return lacksID(a.ID) }
func (e Endpoint) lacks() string { return lacksID(e.ID) }
func (d Delivery) lacks() string { return lacksID(d.ID) }
func (t Tenant) lacks() string   { return lacksID(t.ID) }
func (k APIKey) lacks() string   { return lacksID(k.ID) }

func (r Replay) lacks() string { return lacksID(r.ID) }
func (r Run) lacks() string    { return lacksID(r.ID) }

func (r Resent) lacks() string {
	if r.Data == nil {
		return "data"
	}
	return ""
}

func (s DeliverySummary) lacks() string {
	if s.ByStatus == nil {
		return "by_status"
	}
	return ""
}

func (l Limits) lacks() string {
	if l.EventBytes == 0 {
		return "event_bytes"
	}
	return ""
}

// lacks tells an empty page from an answer without data.
func (p Page[T]) lacks() string {
	if p.Data == nil {
		return "data"
	}
	return ""
}
