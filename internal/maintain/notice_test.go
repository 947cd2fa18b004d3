package maintain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/catalog"
	"github.com/posthorn/posthorn/internal/clock"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// office is a store of notices, an owner's receiver and a mail server in one.
type office struct {
	mu      sync.Mutex
	clock   *clock.Clock
	notices []store.Notice
	posts   []posted
	mails   []Mail
	mailAt  []time.Time
	// answer and deliver say what becomes of the n-th post or mail, from 1.
	answer  func(n int) (int, error)
	deliver func(n int) error
	hang    time.Duration // a post takes so long, or until its context ends
	settle  error
}

type posted struct {
	url    string
	body   string
	header http.Header
	at     time.Time
}

func (o *office) DueNotices(_ context.Context, now time.Time, limit int) (due []store.Notice, next time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	slices.SortFunc(o.notices, func(a, b store.Notice) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID)) })
	for _, n := range o.notices {
		if n.Due.After(now) || len(due) == limit {
			return due, n.Due, nil
		}
		due = append(due, n)
	}
	return due, time.Time{}, nil
}

func (o *office) SettleNotice(_ context.Context, id int64, again time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.settle != nil {
		return o.settle
	}
	i := slices.IndexFunc(o.notices, func(n store.Notice) bool { return n.ID == id })
	if again.IsZero() {
		o.notices = slices.Delete(o.notices, i, i+1)
		return nil
	}
	o.notices[i].Due = again
	o.notices[i].Tries++
	return nil
}

func (o *office) post(ctx context.Context, to string, body []byte, header http.Header) (int, error) {
	o.mu.Lock()
	o.posts = append(o.posts, posted{to, string(body), header, o.clock.Now()})
	n := len(o.posts)
	o.mu.Unlock()
	if o.hang > 0 {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(o.hang):
		}
	}
	if o.answer == nil {
		return 204, nil
	}
	return o.answer(n)
}

func (o *office) Send(_ context.Context, m Mail) error {
	o.mu.Lock()
	o.mails = append(o.mails, m)
	o.mailAt = append(o.mailAt, o.clock.Now())
	n := len(o.mails)
	o.mu.Unlock()
	if o.deliver == nil {
		return nil
	}
	return o.deliver(n)
}

// add queues a notice about an endpoint of the contract with three paths to
// secrets in its URL.
func (o *office) add(became contract.Transition, why webhook.StateReason, change func(*store.Notice)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := store.Notice{
		ID:     int64(len(o.notices) + 1),
		Tenant: webhook.Tenant{ID: "acme", Name: "Acme", OwnerURL: "https://owner.example.com/told?key=hunter2", OwnerEmail: "owner@acme.example"},
		Endpoint: &webhook.Endpoint{
			ID: "ep_1", Tenant: "acme", URL: "https://hooks.example.com:8443/hunter2?key=hunter2", Contract: "elido",
			State: webhook.EndpointPaused, StateReason: why,
			Headers: []webhook.Header{{Name: "X-Key", Value: webhook.NewSecretText("hunter2")}},
		},
		Became: became, Why: why, At: o.clock.Wall(), Due: o.clock.Wall(),
	}
	if change != nil {
		change(&n)
	}
	o.notices = append(o.notices, n)
}

func (o *office) left() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.notices)
}

func (o *office) told() (posts, mails int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.posts), len(o.mails)
}

func ownersOf(t *testing.T, o *office, log slog.Handler) *Owners {
	t.Helper()
	texts, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	if log == nil {
		log = slog.DiscardHandler
	}
	return NewOwners(OwnersConfig{
		Store: o, Post: o.post, Mail: o, Clock: o.clock, Log: slog.New(log), Texts: texts.For(catalog.English),
		Contract: func(name string) *contract.Contract { c, _ := contract.Builtin(name); return c },
		Random:   func() float64 { return 0.5 },
	})
}

// E8, N19, B40: the owner of a tenant whose endpoint was paused is told once, at its URL
// and by mail, in the contract's words and without a secret.
func TestContract_E8_OwnerIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &office{clock: clock.Start()}
		owners := ownersOf(t, o, nil)
		owners.Start()
		<-time.After(10 * time.Second)
		o.add(contract.BecamePaused, webhook.ReasonFailuresInRow, nil)
		owners.Nudge()
		<-time.After(time.Second)
		if posts, mails := o.told(); posts != 1 || mails != 1 {
			t.Fatalf("a second later: %d posts and %d mails", posts, mails)
		}
		<-time.After(100 * time.Hour)
		owners.Stop()
		if posts, mails := o.told(); posts != 1 || mails != 1 || o.left() != 0 {
			t.Fatalf("%d posts, %d mails, %d left", posts, mails, o.left())
		}
		post, mail := o.posts[0], o.mails[0]
		if post.url != "https://owner.example.com/told?key=hunter2" || post.header.Get("Content-Type") != "application/json" {
			t.Errorf("posted to %s with %v", post.url, post.header)
		}
		at := o.mailAt[0].UTC().Format(stamp)
		want := `{"type":"endpoint.paused","timestamp":"` + at + `","data":{"tenant":"acme","endpoint":"ep_1","host":"hooks.example.com:8443",` +
			`"became":"paused","why":"failures_in_row","at":"` + at + `",` +
			`"text":"50 attempts in a row failed, so sending to this URL has been paused. Mend the server, then resume."}}`
		if post.body != want {
			t.Errorf("body is\n%s, want\n%s", post.body, want)
		}
		if mail.To != "owner@acme.example" || mail.Subject != "Webhook endpoint ep_1 (hooks.example.com:8443): sending is paused" {
			t.Errorf("mail to %s: %s", mail.To, mail.Subject)
		}
		for _, part := range []string{"50 attempts in a row failed", "ep_1", "hooks.example.com:8443", "acme"} {
			if !strings.Contains(mail.Body, part) {
				t.Errorf("the mail lacks %q:\n%s", part, mail.Body)
			}
		}
		if id := post.header.Get("webhook-id"); id == "" || id != mail.ID {
			t.Errorf("IDs are %q and %q", id, mail.ID)
		}
		if strings.Contains(post.body+mail.Body+mail.Subject+fmt.Sprint(post.header), "hunter2") {
			t.Error("a secret is told")
		}
	})
}

// N19: each thing that owners are told of has its type and its words.
func TestEngine_N19_NoticesHaveTheirWords(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		became contract.Transition
		why    webhook.StateReason
		rules  string
		state  webhook.EndpointState
		kind   string
		text   string
	}{
		"gone":        {contract.BecameDisabled, webhook.ReasonGone, "standard", webhook.EndpointDisabled, "endpoint.disabled", "The server answered 410 Gone"},
		"no success":  {contract.BecameDisabled, webhook.ReasonNoSuccess, "standard", webhook.EndpointDisabled, "endpoint.disabled", "No delivery has succeeded for 5 days"},
		"staff":       {contract.BecameDisabled, webhook.ReasonStaff, "signals", webhook.EndpointDisabled, "endpoint.disabled", "This webhook was stopped by"},
		"person":      {contract.BecamePaused, webhook.ReasonPerson, "standard", webhook.EndpointPaused, "endpoint.paused", ""},
		"degraded":    {contract.BecameDegraded, webhook.ReasonActive, "elido", webhook.EndpointActive, "endpoint.degraded", "Degraded: for 24 hours there are fewer retries."},
		"expiring":    {store.BecameExpiring, webhook.ReasonPerson, "standard", webhook.EndpointPaused, "endpoint.expiring", "What is held for this endpoint"},
		"no contract": {contract.BecameDisabled, webhook.ReasonGone, "unheard-of", webhook.EndpointDisabled, "endpoint.disabled", "The server answered 410 Gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &office{clock: clock.Start()}
			o.add(test.became, test.why, func(n *store.Notice) { n.Endpoint.Contract, n.Endpoint.State = test.rules, test.state })
			m, ok := ownersOf(t, o, nil).compose(&o.notices[0])
			if !ok {
				t.Fatal("nothing to tell")
			}
			var got envelope
			if err := json.Unmarshal(m.body, &got); err != nil {
				t.Fatal(err)
			}
			if got.Type != test.kind || got.Data.Text == "" || !strings.HasPrefix(got.Data.Text, test.text) || !strings.HasPrefix(m.text, got.Data.Text) {
				t.Errorf("%s: %s\n%s", got.Type, got.Data.Text, m.text)
			}
			if strings.HasSuffix(m.subject, ": "+string(test.became)) {
				t.Errorf("no headline: %s", m.subject)
			}
		})
	}
}

// What is no longer true is not told: a deleted endpoint's, or that held deliveries
// end when they go out by now.
func TestEngine_N19_NothingLeftToTell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &office{clock: clock.Start()}
		o.add(contract.BecameDisabled, webhook.ReasonGone, func(n *store.Notice) { n.Endpoint = nil })
		o.add(store.BecameExpiring, webhook.ReasonPerson, func(n *store.Notice) { n.Endpoint.State = webhook.EndpointActive })
		o.add(contract.BecameDisabled, webhook.ReasonGone, func(n *store.Notice) { n.Tenant.OwnerURL, n.Tenant.OwnerEmail = "", "" })
		owners := ownersOf(t, o, nil)
		owners.Start()
		<-time.After(time.Second)
		owners.Stop()
		if posts, mails := o.told(); posts+mails != 0 || o.left() != 0 {
			t.Errorf("%d posts, %d mails, %d left", posts, mails, o.left())
		}
	})
}

// N19: a receiver that fails is tried again on the standard contract's waits, then
// given up with one line in the log; mail that got through goes out once.
func TestEngine_N19_FailedNoticesAreTriedAgainThenGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &office{clock: clock.Start(), answer: func(n int) (int, error) {
			if n%2 == 0 {
				return 0, &url.Error{Op: "Post", URL: "https://owner.example.com/?key=hunter2", Err: errors.New("connection refused")}
			}
			return 500, nil
		}}
		lines := &counter{}
		owners := ownersOf(t, o, lines)
		o.add(contract.BecameDisabled, webhook.ReasonGone, nil)
		owners.Start()
		<-time.After(200 * time.Hour)
		owners.Stop()
		standard, _ := contract.Builtin(contract.Standard)
		waits := standard.Schedule.Waits
		if len(o.posts) != len(waits) || len(o.mails) != 1 || o.left() != 0 {
			t.Fatalf("%d posts, %d mails, %d left", len(o.posts), len(o.mails), o.left())
		}
		for i := 1; i < len(waits); i++ {
			if got, want := o.posts[i].at.Sub(o.posts[i-1].at), waits[i].Std(); got < want || got > want+time.Second {
				t.Errorf("try %d came after %v, want %v", i+1, got, want)
			}
			if o.posts[i].header.Get("webhook-id") != o.posts[0].header.Get("webhook-id") {
				t.Error("another ID at another try")
			}
		}
		if log := strings.Join(lines.texts, "\n"); lines.n != 2 || !strings.Contains(log, "told no more") || strings.Contains(log, "hunter2") {
			t.Errorf("the log:\n%s", log)
		}
		if got := owners.Stats(); got != (OwnersStats{Told: 1, Failed: int64(len(waits) - 1), GivenUp: 1}) {
			t.Errorf("stats are %+v", got)
		}
	})
}

// An address that will never take it (410, or a mailbox that is refused) is given
// up at once; one that fails first is told once it works.
func TestEngine_N19_EachAddressIsDoneWithByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &office{clock: clock.Start(), answer: func(int) (int, error) { return 410, nil }, deliver: func(n int) error {
			if n < 3 {
				return errors.New("sending mail: answer 451")
			}
			return nil
		}}
		owners := ownersOf(t, o, nil)
		o.add(contract.BecameDisabled, webhook.ReasonGone, nil)
		owners.Start()
		<-time.After(time.Hour)
		if posts, mails := o.told(); posts != 1 || mails != 3 || o.left() != 0 {
			t.Errorf("%d posts, %d mails, %d left", posts, mails, o.left())
		}
		o.mu.Lock()
		o.answer, o.deliver = nil, func(int) error { return fmt.Errorf("%w: answer 550", ErrMailRefused) }
		o.mu.Unlock()
		o.add(contract.BecamePaused, webhook.ReasonFailuresInRow, nil)
		owners.Nudge()
		<-time.After(time.Hour)
		owners.Stop()
		if posts, mails := o.told(); posts != 2 || mails != 4 || o.left() != 0 || len(owners.half) != 0 {
			t.Errorf("%d posts, %d mails, %d left, %d half done", posts, mails, o.left(), len(owners.half))
		}
	})
}

// Without a mail server no mail is sent: that is said once, and owners with a URL
// are told there.
func TestEngine_N19_WithoutAMailServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &office{clock: clock.Start()}
		lines := &counter{}
		owners := ownersOf(t, o, lines)
		owners.cfg.Mail = nil
		for range 3 {
			o.add(contract.BecameDisabled, webhook.ReasonGone, nil)
		}
		owners.Start()
		<-time.After(time.Hour)
		owners.Stop()
		if posts, mails := o.told(); posts != 3 || mails != 0 || o.left() != 0 || lines.n != 1 || !owners.Stats().MailMissing {
			t.Errorf("%d posts, %d mails, %d left, %d lines, %+v", posts, mails, o.left(), lines.n, owners.Stats())
		}
	})
}

// An owner whose receiver hangs holds up no other: its try is cut, and others are
// told meanwhile. Stopping in the middle is no failed try.
func TestEngine_N19_AHangingOwnerHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &office{clock: clock.Start(), hang: time.Hour}
		owners := ownersOf(t, o, nil)
		o.add(contract.BecameDisabled, webhook.ReasonGone, nil)
		o.add(contract.BecameDisabled, webhook.ReasonGone, func(n *store.Notice) { n.Tenant.OwnerURL = "" })
		owners.Start()
		<-time.After(time.Second)
		if _, mails := o.told(); mails != 1 {
			t.Errorf("%d mails while one hangs", mails)
		}
		<-time.After(noticeTimeout)
		if _, mails := o.told(); mails != 2 || o.left() != 1 {
			t.Errorf("%d mails, %d left after the time-out", mails, o.left())
		}
		<-time.After(10 * time.Second) // the second try is under way
		tries := o.notices[0].Tries
		owners.Stop()
		if posts, _ := o.told(); posts != 2 || tries != 1 || o.notices[0].Tries != 1 {
			t.Errorf("%d posts; %d tries before the stop, %d after", posts, tries, o.notices[0].Tries)
		}
		o.hang = 0
		owners.Start()
		<-time.After(time.Second)
		owners.Stop()
		if posts, mails := o.told(); posts != 3 || mails != 2 || o.left() != 0 {
			t.Errorf("%d posts, %d mails, %d left after another start", posts, mails, o.left())
		}
	})
}

// A store that can't be written to does not make it tell again and again.
func TestEngine_N19_AStoreThatFailsIsNoFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &office{clock: clock.Start(), settle: errors.New("disk is full")}
		owners := ownersOf(t, o, nil)
		o.add(contract.BecameDisabled, webhook.ReasonGone, nil)
		owners.Start()
		<-time.After(10*time.Minute - time.Second)
		owners.Stop()
		if posts, mails := o.told(); posts != 1 || mails != 1 {
			t.Errorf("%d posts and %d mails in ten minutes", posts, mails)
		}
	})
}

// N21: time-lapse divides the waits.
func TestEngine_N21_TimeLapseDividesTheWaitsOfNotices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &office{clock: clock.Start(), answer: func(int) (int, error) { return 503, nil }}
		owners := ownersOf(t, o, nil)
		owners.cfg.TimeLapse = 3600
		o.add(contract.BecameDisabled, webhook.ReasonGone, nil)
		owners.Start()
		<-time.After(2 * time.Minute)
		owners.Stop()
		if posts, _ := o.told(); posts != 10 || o.left() != 0 {
			t.Errorf("%d posts, %d left", posts, o.left())
		}
	})
}

// A notice that is no longer true is not told: the endpoint is on again.
func TestEngine_N19_WhatIsOverIsNotTold(t *testing.T) {
	t.Parallel()
	texts, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	for became, told := range map[contract.Transition]bool{
		contract.BecameDisabled: false, contract.BecamePaused: false, store.BecameExpiring: false, contract.BecameDegraded: true,
	} {
		o := NewOwners(OwnersConfig{Contract: func(string) *contract.Contract { return nil }, Texts: texts.For(catalog.English)})
		_, ok := o.compose(&store.Notice{Became: became, Endpoint: &webhook.Endpoint{ID: "ep_1", State: webhook.EndpointActive}})
		if ok != told {
			t.Errorf("%s: told %t", became, ok)
		}
	}
}
