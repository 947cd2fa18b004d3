package api

import (
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/publish"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

type enableInput struct {
	Resume string `json:"resume,omitempty" doc:"What becomes of what came while it was off: backlog leaves it to the contract, which mostly sends it all, oldest first; now skips it, where the contract allows that." enum:"backlog,now" default:"backlog" example:"backlog"`
}

// resumeNow skips what came while an endpoint was off.
const resumeNow = "now"

type disableInput struct {
	Reason string `json:"reason,omitempty" doc:"Why, in your own words. It goes into the operational event endpoint.disabled and into the audit trail." max:"500" example:"The receiver's owner asked for it."`
}

func (a *API) endpointSwitches() []*operation {
	one := a.schemas.of(reflect.TypeFor[wireEndpoint]())
	row := func(verb, id, summary, description string, take *body, handle func(*call) (reply, error)) *operation {
		return &operation{
			id: id, method: http.MethodPost, path: "/v1/endpoints/{id}/" + verb, tag: "endpoints", scope: webhook.ScopeManage, tenancy: tenantOne,
			summary: summary, description: description, body: take, handle: handle, refusals: []webhook.Code{webhook.CodeConflict},
			answers: []answer{{status: 200, description: "The endpoint.", schema: one}},
		}
	}
	disable := row("disable", "disableEndpoint", "Disable an endpoint",
		"For the platform's staff. The endpoint's owner may enable it again. An endpoint that is disabled already is disabled by staff from now on.",
		a.schemas.bodyOf(reflect.TypeFor[disableInput](), map[string]any{"reason": "The receiver's owner asked for it."}), a.disableEndpoint)
	disable.scope = webhook.ScopeOperator
	return []*operation{
		row("pause", "pauseEndpoint", "Pause an endpoint",
			"Its deliveries wait until it is resumed, or are skipped where the contract says so; requests under way may end. Pausing a paused endpoint changes nothing; a disabled one can't be paused.",
			a.schemas.emptyBody(), func(c *call) (reply, error) { return a.flip(c, pause) }),
		row("resume", "resumeEndpoint", "Resume an endpoint",
			"What waited is sent, oldest first, as far as the contract held it. Resuming an active endpoint changes nothing; a disabled one has to be enabled.",
			a.schemas.emptyBody(), func(c *call) (reply, error) { return a.flip(c, resume) }),
		row("enable", "enableEndpoint", "Enable an endpoint",
			"Switches it on from any state. What the contract held is sent, oldest first; dead deliveries are redelivered in the same order where it says so. Enabling an active endpoint changes nothing.",
			a.schemas.bodyOf(reflect.TypeFor[enableInput](), map[string]any{"resume": "backlog"}), a.enableEndpoint),
		disable,
		a.rotateOperation(),
	}
}

func (a *API) enableEndpoint(c *call) (reply, error) {
	in, err := bodyAs[enableInput](c)
	if err != nil {
		return reply{}, err
	}
	return a.flip(c, func(s *switching) error { return enable(s, in.Resume == resumeNow) })
}

func (a *API) disableEndpoint(c *call) (reply, error) {
	in, err := bodyAs[disableInput](c)
	if err != nil {
		return reply{}, err
	}
	return a.flip(c, func(s *switching) error { return disable(s, in.Reason) })
}

func (a *API) flip(c *call, to func(*switching) error) (reply, error) {
	return a.changeEndpoint(c, func(e *webhook.Endpoint) (changed, error) {
		s := a.switching(e, c)
		err := to(s)
		return s.done, err
	})
}

// changed is what a change did to an endpoint, in the store's terms, and the
// operational event that tells of it; "" for none.
type changed struct {
	store.EndpointUpdate
	event string
	// detail is what the caller said about it.
	detail string
}

// switching moves an endpoint to another state, in place, by the rules of the
// contract that it has now. A state that is there already is left as it is.
type switching struct {
	*webhook.Endpoint
	promise *contract.Contract
	now     time.Time
	done    changed
}

func (a *API) switching(e *webhook.Endpoint, c *call) *switching {
	return &switching{Endpoint: e, promise: a.rulesOf(e), now: c.now}
}

// rulesOf is the endpoint's contract. One that this server does not know, which only
// a store that was changed by hand can name, has the rules of the default.
func (a *API) rulesOf(e *webhook.Endpoint) *contract.Contract {
	found, ok := a.cfg.Contracts.Lookup(e.Contract)
	if !ok {
		found, _ = a.cfg.Contracts.Lookup(a.cfg.DefaultContract)
	}
	return found.Contract
}

func pause(s *switching) error {
	switch s.State {
	case webhook.EndpointActive:
		s.off(webhook.EndpointPaused, webhook.ReasonPerson, webhook.TypeEndpointPaused)
	case webhook.EndpointPaused:
		s.done.Unchanged = true
	case webhook.EndpointDisabled:
		return webhook.NewProblem(webhook.CodeConflict, "the endpoint is disabled, so nothing is sent to it that could be paused")
	default:
		return errState()
	}
	return nil
}

func resume(s *switching) error {
	switch s.State {
	case webhook.EndpointActive:
		s.done.Unchanged = true
	case webhook.EndpointPaused:
		return s.on(contract.BecamePaused, false, webhook.TypeEndpointResumed)
	case webhook.EndpointDisabled:
		return webhook.NewProblem(webhook.CodeConflict, "the endpoint is disabled, not paused; enable it")
	default:
		return errState()
	}
	return nil
}

func enable(s *switching, skip bool) error {
	switch s.State {
	case webhook.EndpointActive:
		s.done.Unchanged = true
	case webhook.EndpointPaused:
		return s.on(contract.BecamePaused, skip, webhook.TypeEndpointResumed)
	case webhook.EndpointDisabled:
		return s.on(contract.BecameDisabled, skip, webhook.TypeEndpointEnabled)
	default:
		return errState()
	}
	return nil
}

// disable is staff's stop (S9). Of several banners that of staff is shown, so one
// that is disabled already is disabled by staff from now on.
func disable(s *switching, why string) error {
	if s.State == webhook.EndpointDisabled && s.StateReason == webhook.ReasonStaff {
		s.done.Unchanged = true
		return nil
	}
	if s.State == webhook.EndpointDisabled {
		s.StateReason = webhook.ReasonStaff
		s.done.Action = webhook.TypeEndpointDisabled
	} else {
		s.off(webhook.EndpointDisabled, webhook.ReasonStaff, webhook.TypeEndpointDisabled)
		if slices.Contains(s.promise.TellOwner, contract.BecameDisabled) {
			s.done.TellOwner = contract.BecameDisabled
		}
	}
	s.done.Why = string(webhook.ReasonStaff)
	if why != "" {
		s.done.Why, s.done.detail = why, why
	}
	return nil
}

// flipTo follows the member active, where it was given. Switching off an endpoint
// that is disabled leaves it so: it is off already, and for a reason that its
// owner should see.
func flipTo(s *switching, active *bool) error {
	switch {
	case active == nil:
	case *active && s.State != webhook.EndpointActive:
		return enable(s, false)
	case *active:
	case s.State == webhook.EndpointActive:
		s.off(webhook.EndpointPaused, webhook.ReasonSwitchedOff, webhook.TypeEndpointPaused)
	case s.State == webhook.EndpointPaused:
		s.StateReason = webhook.ReasonSwitchedOff
	}
	return nil
}

// off switches off, and lets what waits be skipped where the contract says so (P5).
// What waits at an endpoint that was off before has had that behind it.
func (s *switching) off(state webhook.EndpointState, reason webhook.StateReason, event string) {
	if s.On() && s.promise.SkipsWaiting() {
		s.done.Skip = webhook.WhySwitchedOff
	}
	setState(s.Endpoint, state, reason, s.now)
	s.done.event, s.done.Action, s.done.Why = event, event, string(reason)
}

// on makes an endpoint active and lets its health begin anew: the health rules
// count from enabling or resuming (S9, E8). The mark degraded ends by its time.
// skip leaves out what came meanwhile.
func (s *switching) on(was contract.Transition, skip bool, event string) error {
	back, ok := s.promise.SwitchOn(was, skip)
	if !ok {
		return webhook.InvalidField("/resume", "the endpoint's contract does not let what came meanwhile be skipped", "backlog")
	}
	setState(s.Endpoint, webhook.EndpointActive, webhook.ReasonActive, s.now)
	s.Health.FailuresInRow, s.Health.FirstFailureAt = 0, time.Time{}
	s.done.event, s.done.Action = event, event
	s.done.CatchUp, s.done.Redeliver = back.Backlog, back.Redeliver
	switch {
	case !back.Backlog:
		s.done.Skip = webhook.WhyResumedNow
	case back.SkipMissed:
		s.done.Skip, s.done.SkipMissed = webhook.WhyResumedNow, true
	}
	if skip {
		s.done.Why = "resume: " + resumeNow
	}
	return nil
}

func setState(e *webhook.Endpoint, state webhook.EndpointState, reason webhook.StateReason, now time.Time) {
	e.State, e.StateReason, e.StateSince = state, reason, now
}

func errState() error {
	return webhook.NewProblem(webhook.CodeInternal, "the endpoint's state is not known here")
}

// endpointUpdate is what the store is asked for, the operational event with it.
func (a *API) endpointUpdate(e *webhook.Endpoint, done changed, c *call) (store.EndpointUpdate, error) {
	if done.Unchanged || done.event == "" {
		return done.EndpointUpdate, nil
	}
	data := switchedData{Endpoint: e.ID, State: e.State, StateReason: e.StateReason, Detail: done.detail}
	emit, err := publish.Operational(a.cfg.Match, e.Tenant, done.event, data, c.now, a.cfg.Clock.Now())
	if err != nil {
		return store.EndpointUpdate{}, err
	}
	done.Emit = []store.AcceptParams{emit}
	return done.EndpointUpdate, nil
}

// switchedData is the payload of endpoint.paused, .resumed, .disabled and
// .enabled. The URL is not in it: it may bear credentials.
type switchedData struct {
	Endpoint    string                `json:"endpoint"`
	State       webhook.EndpointState `json:"state"`
	StateReason webhook.StateReason   `json:"state_reason,omitempty"`
	Detail      string                `json:"detail,omitempty"`
}
