package api

import (
	"errors"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posthorn/posthorn/internal/auth"
	"github.com/posthorn/posthorn/internal/webhook"
)

// tenantHeader names the tenant in requests by operators and in every answer
// that belongs to a tenant.
const tenantHeader = "Posthorn-Tenant"

// call is one request that was let in.
type call struct {
	r  *http.Request
	w  http.ResponseWriter
	op *operation
	// tenant is settled by admit; store.TenantAll only where the operation reads
	// across tenants.
	tenant string
	query  url.Values
	// body is the request's body, whole; "{}" for an absent one. document is the
	// same, decoded and found to fit the schema.
	body     []byte
	document any
	// grant is set in place of tenant for a receiver who came with a page token.
	grant *webhook.PageGrant
	// read is true when nothing of the body is left on the connection.
	read bool
	// room is what the body takes of the budget for all bodies.
	room room
	now  time.Time
}

// id is the path's {id}.
func (c *call) id() string { return c.r.PathValue("id") }

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if cause := recover(); cause != nil {
			a.panicked(w, r, cause)
		}
	}()
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	r = dealias(r)
	// The mux would answer an unclean path with a redirect, and no operation has one.
	if r.URL.Path == "" || r.URL.Path != path.Clean(r.URL.Path) {
		a.refuse(w, a.problemOf(r.Context(), "", noRoute()))
		return
	}
	if handler, pattern := a.mux.Handler(r); pattern == "" {
		a.refuseRoute(w, r, handler)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// dealias rewrites the paths that customers of platforms know to those of
// endpoints. It is the one place that knows them.
func dealias(r *http.Request) *http.Request {
	for _, alias := range []string{"/v1/webhooks", "/api/public/v1/webhooks"} {
		rest, ok := strings.CutPrefix(r.URL.Path, alias)
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		rewritten := *r
		target := *r.URL
		target.Path = "/v1/endpoints" + rest
		if raw, ok := strings.CutPrefix(r.URL.RawPath, alias); ok {
			target.RawPath = "/v1/endpoints" + raw
		} else {
			target.RawPath = ""
		}
		rewritten.URL = &target
		return &rewritten
	}
	return r
}

func noRoute() *webhook.Problem {
	return webhook.NewProblem(webhook.CodeNotFound, "The server has no such path. /openapi.json lists those that exist.")
}

// refuseRoute asks the mux what is wrong with a request that it has no operation
// for, and says so as a problem document.
func (a *API) refuseRoute(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	probe := &headerProbe{header: http.Header{}}
	handler.ServeHTTP(probe, r)
	p := noRoute()
	if probe.status == http.StatusMethodNotAllowed {
		allow := probe.header.Get("Allow")
		w.Header().Set("Allow", allow)
		p = webhook.NewProblem(codeMethodNotAllowed, "The path takes "+allow+".")
	}
	a.refuseUnread(w, r, a.problemOf(r.Context(), "", p))
}

// headerProbe keeps the head of an answer.
type headerProbe struct {
	header http.Header
	status int
}

func (p *headerProbe) Header() http.Header         { return p.header }
func (p *headerProbe) WriteHeader(status int)      { p.status = status }
func (p *headerProbe) Write(b []byte) (int, error) { return len(b), nil }

// serve makes the handler of an operation. The order of checks is the same for
// all: key, scope, tenant, parameters, body's type, body's size, body's form.
// Until the key is good, not one byte of the body is read (B95).
func (a *API) serve(op *operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{r: r, w: w, op: op, now: a.cfg.Clock.Wall(), room: room{of: &a.bodies}}
		defer c.room.leave()
		err := a.admit(c)
		if err == nil {
			err = a.readRequest(c)
		}
		r = c.r // with who asks
		if err != nil && !c.read {
			a.refuseUnread(w, r, a.problemOf(r.Context(), op.id, err))
			return
		}
		if err != nil {
			a.refuse(w, a.problemOf(r.Context(), op.id, err))
			return
		}
		if op.body == nil {
			a.dropBody(w, r)
		}
		if op.handler != nil {
			op.handler.ServeHTTP(w, r)
			return
		}
		answer, err := op.handle(c)
		if err != nil {
			a.refuse(w, a.problemOf(r.Context(), op.id, err))
			return
		}
		a.answer(w, r, answer)
	}
}

// admit settles who asks and for which tenant. Nothing behind it decides about
// tenants any more.
func (a *API) admit(c *call) error {
	if c.op.scope == "" {
		return nil
	}
	// Of two keys or tenants, whatever stands before this server may have looked
	// at the other one.
	if len(c.r.Header.Values("Authorization")) > 1 {
		return webhook.NewProblem(webhook.CodeUnauthorized, "The header Authorization is given more than once.")
	}
	if c.op.pageToken {
		if admitted, err := a.admitReader(c); admitted || err != nil {
			return err
		}
	}
	identity, err := a.cfg.Auth.Authenticate(c.r.Context(), c.r.Header.Get("Authorization"))
	if err != nil {
		return err
	}
	if err := identity.Require(c.op.scope); err != nil {
		return err
	}
	if err := a.settleTenant(c, identity); err != nil {
		return err
	}
	c.r = c.r.WithContext(webhook.WithActor(c.r.Context(), actorOf(identity)))
	if c.tenant != "" {
		c.w.Header().Set(tenantHeader, c.tenant)
	}
	return nil
}

// actorOf is how the audit trail names who asks.
func actorOf(who auth.Identity) webhook.Actor {
	if who.KeyID == auth.AdminKeyID {
		return webhook.Actor{Kind: webhook.ActorAdmin}
	}
	return webhook.Actor{Kind: webhook.ActorKey, ID: who.KeyID}
}

func (a *API) settleTenant(c *call, who auth.Identity) (err error) {
	if len(c.r.Header.Values(tenantHeader)) > 1 {
		return webhook.InvalidField(tenantHeader, "it is given more than once", "the header once")
	}
	switch c.op.tenancy {
	case tenantNone:
	case tenantPath:
		if err := a.cfg.Auth.CheckTenant(c.r.Context(), c.id()); err != nil {
			return err
		}
		c.tenant = c.id()
	case tenantOne:
		c.tenant, err = a.cfg.Auth.ResolveTenant(c.r.Context(), who, c.r.Header.Get(tenantHeader), auth.OneTenant)
	case tenantAcross:
		c.tenant, err = a.cfg.Auth.ResolveTenant(c.r.Context(), who, c.r.Header.Get(tenantHeader), auth.AllTenants)
	}
	return err
}

// readRequest checks parameters and reads the body.
func (a *API) readRequest(c *call) error {
	if err := checkParams(c); err != nil {
		return err
	}
	if c.op.body == nil {
		return nil
	}
	if err := a.readBody(c); err != nil {
		return err
	}
	if c.op.body.schema == nil {
		return nil
	}
	return decodeDocument(c)
}

// readBody reads the whole body, within its limit and its time.
func (a *API) readBody(c *call) error {
	spec := c.op.body
	// No body means {} and needs no type, except in publishing.
	mayLack := spec.schema != nil
	if c.r.ContentLength == 0 && mayLack {
		c.body = []byte("{}")
		return nil
	}
	limit, tooLarge := spec.limit, errTooLarge(spec.limit, webhook.CodeTooLarge)
	if spec.bound != nil {
		limit, tooLarge = spec.bound(c.r)
	}
	if c.r.ContentLength > limit {
		return tooLarge
	}
	if coding := c.r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return unsupported("Content-Encoding", "Bodies are taken uncompressed only.", "no Content-Encoding, or identity")
	}
	// A body that turns out to be empty needs no type, but that is seen only by
	// reading it: a missing type is judged afterwards, a wrong one at once.
	given := c.r.Header.Get("Content-Type")
	mediaErr := checkMediaType(given, spec.types)
	if mediaErr != nil && (given != "" || !mayLack) {
		return mediaErr
	}
	read, err := a.readAll(c, limit, spec.timeout)
	if errors.Is(err, errOverLimit) {
		return tooLarge
	}
	if err != nil {
		return err
	}
	if len(read) == 0 && mayLack {
		c.body = []byte("{}")
		return nil
	}
	c.body = read
	return mediaErr
}

// readAll reads at most limit bytes in at most timeout. The deadline stands on
// the connection, so that a body of one byte a second ends too (B95).
func (a *API) readAll(c *call, limit int64, timeout time.Duration) ([]byte, error) {
	control := http.NewResponseController(c.w)
	deadlined := control.SetReadDeadline(a.cfg.Clock.Wall().Add(timeout)) == nil
	read, err := readWithin(c.r.Body, c.r.ContentLength, limit, &c.room)
	if err != nil {
		return nil, err
	}
	if deadlined {
		// The connection goes back to the server, which sets its own deadlines.
		_ = control.SetReadDeadline(time.Time{})
	}
	c.read = true
	return read, nil
}

// errOverLimit tells that a body goes on behind its limit.
var errOverLimit = errors.New("body over its limit")

// preallocate bounds what a declared length alone makes us set aside.
const preallocate = 1 << 20

func readWithin(from io.Reader, declared, limit int64, within *room) ([]byte, error) {
	// One byte more than declared or allowed tells the end from an excess.
	from = io.LimitReader(from, limit+1)
	begin := int64(512)
	if declared >= 0 {
		begin = min(declared, preallocate) + 1
	}
	if err := within.grow(int(begin)); err != nil {
		return nil, err
	}
	buf := make([]byte, 0, begin)
	for {
		if len(buf) == cap(buf) {
			if err := within.grow(2 * cap(buf)); err != nil {
				return nil, err
			}
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return nil, errOverLimit
		}
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return nil, bodyProblem(err)
		}
	}
}

// bodyProblem says what stopped a body. The cause is the caller's connection, not
// us, so its error text helps nobody.
func bodyProblem(err error) error {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return webhook.NewProblem(codeRequestTimeout, "The body did not arrive within its time. Nothing was done.")
	}
	return webhook.NewProblem(webhook.CodeInvalidBody, "The body broke off before its end. Nothing was done.")
}

func errTooLarge(limit int64, name webhook.Code) error {
	allowed := "at most " + strconv.FormatInt(limit, 10) + " bytes"
	return &webhook.Problem{Code: webhook.CodeTooLarge, Detail: "The body is larger than what is taken here.", Fields: []webhook.FieldFault{
		{Pointer: "", Code: name, Detail: "the body is too large", Allowed: allowed},
	}}
}

func unsupported(header, detail, allowed string) error {
	return &webhook.Problem{Code: webhook.CodeUnsupportedType, Detail: detail, Fields: []webhook.FieldFault{
		{Pointer: header, Code: webhook.CodeUnsupportedType, Detail: "it is missing or not taken here", Allowed: allowed},
	}}
}

// checkMediaType compares a Content-Type with those that are taken.
func checkMediaType(given string, taken []string) error {
	if slices.Contains(taken, given) {
		return nil
	}
	media, params, err := mime.ParseMediaType(given)
	charset := params["charset"]
	if err == nil && (charset == "" || strings.EqualFold(charset, "utf-8")) && slices.Contains(taken, media) {
		return nil
	}
	return unsupported("Content-Type", "The body's type is missing or not one that is taken here.", strings.Join(taken, " or ")+", in UTF-8")
}

// refuseUnread refuses a request whose body may not have been read. Draining it
// would let the caller decide how long this takes, so the connection ends.
func (a *API) refuseUnread(w http.ResponseWriter, r *http.Request, doc wireProblem) {
	a.dropBody(w, r)
	a.refuse(w, doc)
}

// dropBody leaves a body unread that nobody wants.
func (a *API) dropBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(a.cfg.Clock.Wall().Add(time.Second))
}

// answer writes a success.
func (a *API) answer(w http.ResponseWriter, r *http.Request, out reply) {
	maps.Copy(w.Header(), out.header)
	switch {
	case out.stream != nil:
		w.Header().Set("Content-Type", out.mediaType)
		w.WriteHeader(out.status)
		if err := out.stream(w); err != nil {
			a.cfg.Log.LogAttrs(r.Context(), slog.LevelWarn, "an answer broke off", slog.String("path", r.Pattern), slog.Any("error", err))
			// Only a broken connection tells the caller that this is not all.
			panic(http.ErrAbortHandler)
		}
	case out.raw != nil:
		w.Header().Set("Content-Type", out.mediaType)
		w.Header().Set("Content-Length", strconv.Itoa(len(out.raw)))
		w.WriteHeader(out.status)
		_, _ = w.Write(out.raw)
	case out.value != nil:
		w.Header().Set("Content-Type", "application/json")
		writeJSON(w, out.status, out.value)
	default:
		w.WriteHeader(out.status)
	}
}
