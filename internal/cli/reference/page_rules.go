package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/posthorn/posthorn/contract"
)

func (p page) others() []string {
	return []string{p.gate(), p.order()}
}

func (p page) gate() string {
	g := p.c.Gate
	switch {
	case !g.Closes() && p.c.Order.Mode == "strict":
		return "A failed delivery holds back later ones of its ordering key, and no others."
	case !g.Closes():
		return "A failed delivery does not hold others back."
	}
	which := "A failure of any kind"
	if !g.Any {
		statuses := make([]string, len(g.On))
		for i, s := range g.On {
			statuses[i] = fmt.Sprint(s)
		}
		which = "An answer of " + enumerate(statuses, "or")
	}
	whose := "that endpoint"
	if g.Scope == "url" {
		whose = "that URL, at whichever endpoint of the tenant,"
	}
	label, _, _ := p.english.Kind(p.c, contract.KindEndpointUnavailable)
	passed := ""
	if len(g.PassedBy) > 0 {
		passed = "In spite of it, one at a time, go out: " + p.triggers(g.PassedBy) + "."
	}
	return join(fmt.Sprintf("%s holds back the other deliveries to %s until the failed one's next attempt.", which, whose),
		fmt.Sprintf("They show “%s” (`%s`); no request is made for them and no attempt is counted. A success lets all of them go.", label, contract.KindEndpointUnavailable),
		passed)
}

func (p page) order() string {
	if p.c.Order.Mode != "strict" {
		return "No order is promised."
	}
	said := "Deliveries of one ordering key go to an endpoint in the order in which their events were accepted: the next one goes out when the one before has ended. " +
		"The key is the publisher's `ordering_key`"
	if len(p.c.Order.Key) > 0 {
		said += ", else the first of " + enumerate(quoted(p.c.Order.Key), "and") + " that the event has"
	}
	return said + "."
}

func (p page) triggers(all []contract.Trigger) string {
	labels := make([]string, len(all))
	for i, t := range all {
		labels[i] = "“" + p.english.Trigger(p.c, t) + "”"
	}
	return enumerate(labels, "and")
}

func (p page) health() []string {
	var said []string
	for _, s := range p.c.Stop {
		if s.Disable {
			label, _, _ := p.english.Kind(p.c, s.On)
			said = append(said, fmt.Sprintf("“%s” (`%s`) disables the endpoint at once, unless it answers a test.", label, s.On))
		}
	}
	if d := p.c.Degrade; d.After > 0 {
		said = append(said, fmt.Sprintf("After %d failed attempts in a row, of whatever deliveries, the endpoint is marked as degraded for %s; the mark is renewed while it fails on.", d.After, p.span(d.For)))
	}
	if n := p.c.Pause.After; n > 0 {
		said = append(said, fmt.Sprintf("After %d failed attempts in a row the endpoint is paused.", n))
	}
	if long := p.c.Disable.NoSuccessFor; long > 0 {
		said = append(said, fmt.Sprintf("Without a success for %s, counted from the first failure after the last success, enabling or resuming, the endpoint is disabled; at least three failures are needed.", p.span(long)))
	}
	if len(said) == 0 {
		return []string{"Failures never change an endpoint's state; a person switches it off and on."}
	}
	if p.c.Degrade.After > 0 || p.c.Pause.After > 0 || p.c.Disable.NoSuccessFor > 0 {
		said = append(said, "Attempts of these deliveries count: "+p.triggers(p.c.Health.Counts)+". Tests never do.")
	}
	if len(p.c.TellOwner) > 0 {
		told := make([]string, len(p.c.TellOwner))
		for i, t := range p.c.TellOwner {
			told[i] = string(t)
		}
		said = append(said, "The tenant's owner is told when it is "+enumerate(told, "or")+".")
	}
	return said
}

func (p page) off() []string {
	fates := map[contract.Fate]string{contract.FateHold: "held until the endpoint is on again", contract.FateSkip: "ended as " + p.status(contract.StatusSkipped) + ", in the log"}
	flight := "A success counts. After a failure the delivery ends as " + p.status(contract.StatusSkipped) + "."
	if p.c.Off.InFlight == contract.FateHold {
		label, _, _ := p.english.Kind(p.c, contract.KindPaused)
		flight = fmt.Sprintf("A success counts. A failure stands in the log as “%s” (`%s`), uses up no attempt, and the attempt is made again as soon as the endpoint is on.", label, contract.KindPaused)
	}
	rows := [][]string{
		{"while the endpoint is paused or disabled", "what happens"},
		{"events that come", upper(fates[p.c.Off.New]) + "."},
		{"deliveries that are waiting", upper(fates[p.c.Off.Waiting]) + "."},
		{"a request under way", flight},
	}
	resume := "Resuming after a pause: " + p.on(p.c.OnResume.Held, p.c.OnResume.Dead) + "."
	enable := "Enabling after a disabling: " + p.on(p.c.OnEnable.Held, p.c.OnEnable.Dead) + "."
	if p.c.OnEnable.MaySkip {
		enable += " Who enables may leave out what came since the disabling (`resume: now`); it ends as " + p.status(contract.StatusSkipped) + "."
	}
	return []string{table(rows), resume, enable}
}

// on says what happens when an endpoint is on again.
func (p page) on(held, dead string) string {
	said := "nothing goes out by itself"
	if held == "backlog" {
		said = "what was held goes out, oldest first"
	}
	label, _ := p.english.Status(p.c, contract.StatusDead)
	switch {
	case !p.reaches(contract.StatusDead):
	case dead == "redeliver":
		said += fmt.Sprintf(", and each “%s” delivery that is no test is redelivered, in the same order", label)
	default:
		said += fmt.Sprintf("; “%s” deliveries stay as they are", label)
	}
	return said
}

// reaches tells whether a delivery can have a status under the contract.
func (p page) reaches(s contract.Status) bool {
	switch s {
	case contract.StatusDead:
		return p.c.Exhausted.Status == s || slices.ContainsFunc(p.c.Stop, func(stop contract.Stop) bool { return stop.Status == s })
	case contract.StatusRedelivered:
		return len(p.c.Redeliver.From) > 0 && p.c.Redeliver.MarksOld == string(s)
	case contract.StatusPending, contract.StatusSending, contract.StatusDelivered, contract.StatusFailed, contract.StatusSkipped, contract.StatusCanceled:
		return true
	}
	return false
}

// statuses lists those of the statuses that there are.
func (p page) statuses(all []contract.Status) string {
	var said []string
	for _, s := range all {
		if p.reaches(s) {
			said = append(said, p.status(s))
		}
	}
	return enumerate(said, "or")
}

func (p page) again() []string {
	r := p.c.Resend
	resend := "A delivery can't be resent under its own ID."
	if len(r.From) > 0 {
		attempts := "It has the whole schedule again, with attempts from 1."
		if r.Attempts == "once" {
			attempts = "It has a single attempt and ends " + enumerate([]string{p.status(contract.StatusDelivered), p.status(contract.StatusFailed)}, "or") + "; the schedule does not start again."
		}
		resend = join(fmt.Sprintf("**Resending** sends the same delivery again, under the same webhook ID. It is for deliveries that are %s.", p.statuses(r.From)), attempts)
		if r.Batch > 1 {
			resend += fmt.Sprintf(" Up to %d go in one request%s.", r.Batch, given(r.AllOrNone, "; if one of them can't be resent, none is"))
		}
	}
	needs := ""
	if r.NeedsOn && len(r.From)+len(p.c.Redeliver.From) > 0 {
		needs = "The endpoint has to be on."
	}
	return []string{resend, p.redeliver(), join(needs, "Tests, and what has not ended, are never sent again.")}
}

func (p page) redeliver() string {
	r := p.c.Redeliver
	if len(r.From) == 0 {
		return ""
	}
	of := "event"
	if p.c.Delivers == contract.DeliversRun {
		of = "run"
	}
	id := "It has the whole schedule and a webhook ID of its own."
	if p.c.WebhookID == contract.PerEvent {
		id = "It has the whole schedule and the same webhook ID: a receiver that remembers it takes it for a repeat."
	}
	old := "The old delivery stays as it is."
	if r.MarksOld == string(contract.StatusRedelivered) {
		old = "The old delivery becomes " + p.status(contract.StatusRedelivered) + "."
	}
	return join(fmt.Sprintf("**Redelivering** makes a new delivery of the same %s. It is for deliveries that are %s.", of, p.statuses(r.From)), id, old)
}

func (p page) test() []string {
	t := p.c.Test
	off := "It can be sent only while the endpoint is on."
	if t.WhileOff {
		off = "It can be sent while the endpoint is off too."
	}
	logged := "It is not in the log."
	if t.Logged {
		logged = "It is in the log, marked as a test."
	}
	return []string{join(fmt.Sprintf("A test is one attempt with an event of the type `%s` and the data `%s`.", t.Type, t.Data),
		"It counts for nothing and waits for no other delivery.", off, logged)}
}

func (p page) history() []string {
	rows := [][]string{{"status", "label", "meaning"}}
	for _, s := range contract.Statuses() {
		if !p.reaches(s) || p.c.Shown(s) != s {
			continue
		}
		label, meaning := p.english.Status(p.c, s)
		rows = append(rows, []string{"`" + string(s) + "`", label, meaning})
	}
	keep := fmt.Sprintf("A delivery stays in the log for %s after its end, with its attempts; what has not ended stays.", p.span(p.c.History.Keep))
	if n := p.c.Response.Keep; n > 0 {
		keep += fmt.Sprintf(" Of each answer's body the first %d bytes are kept.", n)
	}
	deleted := "Deleting an endpoint ends its waiting deliveries as " + p.status(contract.StatusCanceled) + "; its log stays for that time."
	if p.c.History.OnEndpointDelete == "delete" {
		deleted = "Deleting an endpoint deletes its deliveries and its log."
	}
	return []string{keep, deleted, "These are the statuses that the log shows:", table(rows)}
}

func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
