package api

import (
	"net/http"
	"reflect"
	"time"

	"github.com/posthorn/posthorn/internal/publish"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

type enableInput struct {
	Resume string `json:"resume,omitempty" doc:"What becomes of the deliveries that waited: backlog sends them all, oldest first." enum:"backlog" default:"backlog" example:"backlog"`
}

type disableInput struct {
	Reason string `json:"reason,omitempty" doc:"Why, in your own words. It goes into the operational event endpoint.disabled." max:"500" example:"The receiver's owner asked for it."`
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
			"Its deliveries wait until it is resumed; one request under way may end. Pausing a paused endpoint changes nothing; a disabled one can't be paused.",
			a.schemas.emptyBody(), func(c *call) (reply, error) { return a.flip(c, pause, "") }),
		row("resume", "resumeEndpoint", "Resume an endpoint",
			"What waited is sent, oldest first. Resuming an active endpoint changes nothing; a disabled one has to be enabled.",
			a.schemas.emptyBody(), func(c *call) (reply, error) { return a.flip(c, resume, "") }),
		row("enable", "enableEndpoint", "Enable an endpoint",
			"Switches it on from any state, and what waited is sent, oldest first. Enabling an active endpoint changes nothing.",
			a.schemas.bodyOf(reflect.TypeFor[enableInput](), map[string]any{"resume": "backlog"}), a.enableEndpoint),
		disable,
		a.rotateOperation(),
	}
}

func (a *API) enableEndpoint(c *call) (reply, error) {
	if _, err := bodyAs[enableInput](c); err != nil {
		return reply{}, err
	}
	return a.flip(c, enable, "")
}

func (a *API) disableEndpoint(c *call) (reply, error) {
	in, err := bodyAs[disableInput](c)
	if err != nil {
		return reply{}, err
	}
	return a.flip(c, disable, in.Reason)
}

func (a *API) flip(c *call, to transition, why string) (reply, error) {
	return a.changeEndpoint(c, func(e *webhook.Endpoint) (flipped, error) {
		done, err := to(e, c.now)
		done.why = why
		return done, err
	})
}

// flipped is what a change did to an endpoint's state.
type flipped struct {
	// unchanged: nothing at all is to be stored.
	unchanged bool
	// event is the operational type to emit, "" for none.
	event string
	// why is what the caller said about it.
	why string
}

// transition moves an endpoint to another state, in place. One that is there
// already is left as it is.
type transition func(*webhook.Endpoint, time.Time) (flipped, error)

func pause(e *webhook.Endpoint, now time.Time) (flipped, error) {
	switch e.State {
	case webhook.EndpointActive:
		setState(e, webhook.EndpointPaused, webhook.ReasonPerson, now)
		return flipped{event: webhook.TypeEndpointPaused}, nil
	case webhook.EndpointPaused:
		return flipped{unchanged: true}, nil
	case webhook.EndpointDisabled:
		return flipped{}, webhook.NewProblem(webhook.CodeConflict, "the endpoint is disabled, so nothing is sent to it that could be paused")
	default:
		return flipped{}, errState()
	}
}

func resume(e *webhook.Endpoint, now time.Time) (flipped, error) {
	switch e.State {
	case webhook.EndpointActive:
		return flipped{unchanged: true}, nil
	case webhook.EndpointPaused:
		switchOn(e, now)
		return flipped{event: webhook.TypeEndpointResumed}, nil
	case webhook.EndpointDisabled:
		return flipped{}, webhook.NewProblem(webhook.CodeConflict, "the endpoint is disabled, not paused; enable it")
	default:
		return flipped{}, errState()
	}
}

func enable(e *webhook.Endpoint, now time.Time) (flipped, error) {
	if e.State != webhook.EndpointDisabled {
		return resume(e, now)
	}
	switchOn(e, now)
	return flipped{event: webhook.TypeEndpointEnabled}, nil
}

func disable(e *webhook.Endpoint, now time.Time) (flipped, error) {
	if e.State != webhook.EndpointDisabled {
		setState(e, webhook.EndpointDisabled, webhook.ReasonStaff, now)
		return flipped{event: webhook.TypeEndpointDisabled}, nil
	}
	if e.StateReason == webhook.ReasonStaff {
		return flipped{unchanged: true}, nil
	}
	// Of several banners that of staff is shown; the endpoint was off before.
	e.StateReason = webhook.ReasonStaff
	return flipped{}, nil
}

// flipTo follows the member active, where it was given. Switching off an endpoint
// that is disabled leaves it so: it is off already, and for a reason that its
// owner should see.
func flipTo(e *webhook.Endpoint, active *bool, now time.Time) flipped {
	switch {
	case active == nil:
	case *active:
		// enable fails for no state that exists.
		done, _ := enable(e, now)
		return flipped{event: done.event}
	case e.State == webhook.EndpointActive:
		setState(e, webhook.EndpointPaused, webhook.ReasonSwitchedOff, now)
		return flipped{event: webhook.TypeEndpointPaused}
	case e.State == webhook.EndpointPaused:
		e.StateReason = webhook.ReasonSwitchedOff
	}
	return flipped{}
}

func setState(e *webhook.Endpoint, state webhook.EndpointState, reason webhook.StateReason, now time.Time) {
	e.State, e.StateReason, e.StateSince = state, reason, now
}

// switchOn makes an endpoint active and lets its health begin anew: the health
// rules count from enabling or resuming (S9, E8).
func switchOn(e *webhook.Endpoint, now time.Time) {
	setState(e, webhook.EndpointActive, webhook.ReasonActive, now)
	e.Health.FailuresInRow, e.Health.FirstFailureAt = 0, time.Time{}
}

func errState() error {
	return webhook.NewProblem(webhook.CodeInternal, "the endpoint's state is not known here")
}

// endpointUpdate turns what a change did into the store's terms.
func (a *API) endpointUpdate(e *webhook.Endpoint, done flipped, c *call) (store.EndpointUpdate, error) {
	if done.unchanged {
		return store.EndpointUpdate{Unchanged: true}, nil
	}
	if done.event == "" {
		return store.EndpointUpdate{}, nil
	}
	data := switchedData{Endpoint: e.ID, State: e.State, StateReason: e.StateReason, Detail: done.why}
	emit, err := publish.Operational(a.cfg.Match, e.Tenant, done.event, data, c.now, a.cfg.Clock.Now())
	if err != nil {
		return store.EndpointUpdate{}, err
	}
	return store.EndpointUpdate{Emit: []store.AcceptParams{emit}}, nil
}

// switchedData is the payload of endpoint.paused, .resumed, .disabled and
// .enabled. The URL is not in it: it may bear credentials.
type switchedData struct {
	Endpoint    string                `json:"endpoint"`
	State       webhook.EndpointState `json:"state"`
	StateReason webhook.StateReason   `json:"state_reason,omitempty"`
	Detail      string                `json:"detail,omitempty"`
}
