package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/again"
	"github.com/posthorn/posthorn/internal/catalog"
	"github.com/posthorn/posthorn/internal/config"
	"github.com/posthorn/posthorn/internal/maintain"
	"github.com/posthorn/posthorn/internal/publish"
	"github.com/posthorn/posthorn/internal/send"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/store/sqlite"
	"github.com/posthorn/posthorn/internal/webhook"
)

// services are what goes on beside requests and lanes.
type services struct {
	retention *maintain.Retention
	replays   *maintain.Replays
	owners    *maintain.Owners
}

// openServices makes and starts them, over lanes that are open.
func (a *App) openServices(texts *catalog.Catalog) error {
	mail, err := a.mailer()
	if err != nil {
		return err
	}
	s := &services{
		retention: maintain.NewRetention(maintain.RetentionConfig{Keeper: a.db, Clock: a.clock, Log: a.log}),
		replays: maintain.NewReplays(maintain.ReplaysConfig{
			Store: a.db, Endpoints: a.db, Matches: a.registry.WouldTake, Finished: a.replayFinished, Clock: a.clock, Log: a.log,
			Decide: func(now time.Time) func(*webhook.Delivery, *webhook.Endpoint) (store.Again, bool) {
				return again.Replay(a.contracts, now)
			},
		}),
		owners: maintain.NewOwners(maintain.OwnersConfig{
			Store: a.db, Post: a.post, Mail: mail, Texts: texts.For("en"), TimeLapse: a.cfg.TimeLapse, Random: randomFloat,
			Contract: func(name string) *contract.Contract { c, _ := a.contracts.Current(name); return c },
			Clock:    a.clock, Log: a.log,
		}),
	}
	s.retention.Start()
	s.replays.Start()
	s.owners.Start()
	a.services.Store(s)
	return nil
}

func (s *services) stop() {
	s.replays.Stop()
	s.owners.Stop()
	s.retention.Stop()
}

// changed tells them that an endpoint changed: a notice may have been made, and a
// replay may go on.
func (s *services) changed() {
	s.replays.Nudge()
	s.owners.Nudge()
}

// mailer is nil where no mail server is set.
func (a *App) mailer() (maintain.Mailer, error) {
	server, err := config.ParseSMTP(a.cfg.Secrets.SMTPURL)
	if err != nil || server.Host == "" {
		return nil, err
	}
	return maintain.NewSMTP(maintain.MailServer{
		Host: server.Host, Port: server.Port, User: server.User, Password: server.Password, From: server.From,
		Implicit: server.Security == config.SMTPImplicit, StartTLS: server.Security == config.SMTPStartTLS,
	}), nil
}

// ownerTimeout is how long an owner's server may take to answer.
const ownerTimeout = 15 * time.Second

// errNoAnswer is the error of a notice that nobody answered; why stands nowhere,
// since it may quote the address.
var errNoAnswer = errors.New("no answer came")

// post sends a notice to an owner's URL the way that webhooks go.
func (a *App) post(ctx context.Context, url string, body []byte, header http.Header) (int, error) {
	standard, _ := contract.Builtin(contract.Standard)
	header.Set("User-Agent", userAgent(a.opt.Version))
	o := a.sender.Send(ctx, send.Request{URL: url, Header: header, Body: body, Timeout: ownerTimeout, Contract: standard})
	if o.StatusCode == 0 {
		return 0, errNoAnswer
	}
	return o.StatusCode, nil
}

// replayFinishedData is the payload of replay.finished.
type replayFinishedData struct {
	Replay   string              `json:"replay"`
	Endpoint string              `json:"endpoint"`
	State    webhook.ReplayState `json:"state"`
	Count    int                 `json:"count"`
	Done     int                 `json:"done"`
	Failed   int                 `json:"failed"`
}

func (a *App) replayFinished(r webhook.Replay) store.AcceptParams {
	data := replayFinishedData{Replay: r.ID, Endpoint: r.Endpoint, State: r.State, Count: r.Count, Done: r.Done, Failed: r.Failed}
	p, err := publish.Operational(a.registry.Match, r.Tenant, webhook.TypeReplayFinished, data, a.clock.Wall(), a.clock.Now())
	if err != nil {
		a.log.Error("preparing an operational event", slog.Any("error", err)) // words and numbers always marshal
	}
	return p
}

// nudged is the store as the API sees it: a new replay begins at once.
type nudged struct {
	*sqlite.DB
	services *services
}

// CreateReplay implements store.Replays.
func (n nudged) CreateReplay(ctx context.Context, r webhook.Replay) (*webhook.Replay, error) {
	made, err := n.DB.CreateReplay(ctx, r)
	n.services.replays.Nudge()
	return made, err
}

// testPatience is how long a test may take beyond its contract's time-out.
const testPatience = 5 * time.Second

// test sends one test event on the way of all deliveries, and waits for its end.
// It implements api.Config.Test.
func (a *App) test(ctx context.Context, e *webhook.Endpoint, promise *contract.Contract) (result testResult, err error) {
	ctx, cancel := context.WithTimeout(ctx, promise.Timeout.Std()+testPatience)
	defer cancel()
	to := publish.Direct{Tenant: e.Tenant, Endpoint: e.Key, Trigger: contract.TriggerTest, ByPerson: true, Unlogged: !promise.Test.Logged}
	var w waiting
	to.Before = func(fresh []store.Work) {
		if len(fresh) > 0 {
			w.id = fresh[0].DeliveryID
			w.ended, w.stop = a.dispatcher.Await(fresh[0].Ref)
		}
	}
	if _, _, err = a.publisher.PublishTo(ctx, to, publish.Event{Type: promise.Test.Type, Data: []byte(promise.Test.Data), ContentType: publish.ContentTypeJSON}); err != nil {
		return result, err
	}
	if w.ended == nil {
		return result, nil
	}
	defer w.stop()
	if promise.Test.Logged {
		result.Delivery = w.id
	}
	select {
	case end, ok := <-w.ended:
		if ok {
			result.Status, result.Attempt = promise.Shown(end.Status), end.Attempt
		}
	case <-ctx.Done(): // whoever is told that it did not come must not get it later
		late := context.WithoutCancel(ctx)
		if _, err := a.db.CancelDelivery(late, e.Tenant, w.id, a.clock.Wall()); err != nil && !errors.Is(err, store.ErrNotFound) {
			return result, err
		}
	}
	return result, nil
}
