package maintain

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// message is a notice in the forms that owners get.
type message struct {
	id            string
	body          []byte // JSON, for the URL
	subject, text string // mail
}

// envelope is that of Standard Webhooks.
type envelope struct {
	Type      string     `json:"type"`
	Timestamp string     `json:"timestamp"`
	Data      noticeData `json:"data"`
}

// noticeData is what a notice says: what the endpoint became, when and why. It is
// the same at each try.
type noticeData struct {
	Tenant   string `json:"tenant"`
	Endpoint string `json:"endpoint"`
	Host     string `json:"host"`
	Became   string `json:"became"`
	Why      string `json:"why,omitempty"`
	At       string `json:"at"`
	Text     string `json:"text"`
}

// stamp is how times are written: RFC 3339 with milliseconds, UTC.
const stamp = "2006-01-02T15:04:05.000Z"

// compose writes a notice. ok is false when there is nothing left to tell: the
// endpoint is gone, or on again. The endpoint's URL is named by its host alone
// (B81).
func (o *Owners) compose(n *store.Notice) (m message, ok bool) {
	e := n.Endpoint
	if e == nil || e.On() && n.Became != contract.BecameDegraded {
		return m, false
	}
	d := noticeData{
		Tenant: n.Tenant.ID, Endpoint: e.ID, Host: hostOf(e),
		Became: string(n.Became), Why: string(n.Why), At: n.At.UTC().Format(stamp), Text: o.sentence(n),
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(envelope{Type: "endpoint." + d.Became, Timestamp: d.At, Data: d}); err != nil {
		return m, false // strings alone: it can't fail
	}
	m = message{id: noticeID(n), body: bytes.TrimRight(body.Bytes(), "\n")}
	m.subject = fmt.Sprintf("Webhook endpoint %s (%s): %s", d.Endpoint, d.Host, headline(n.Became))
	m.text = mailText(n, &d)
	return m, true
}

// sentence is what happened and what to do, in the words of the catalogue.
func (o *Owners) sentence(n *store.Notice) string {
	c := o.cfg.Contract(n.Endpoint.Contract)
	switch n.Became {
	case contract.BecameDegraded:
		_, text := o.cfg.Texts.Degraded(c)
		return text
	case store.BecameExpiring:
		return "What is held for this endpoint has been kept for as long as its history is. It is skipped within a day, unless sending starts again."
	case contract.BecameDisabled, contract.BecamePaused:
	}
	if banner := o.cfg.Texts.Banner(c, n.Why); banner != "" {
		return banner
	}
	state := webhook.EndpointDisabled
	if n.Became == contract.BecamePaused {
		state = webhook.EndpointPaused
	}
	_, meaning := o.cfg.Texts.State(c, state)
	return meaning
}

// headline is a few words for a subject.
func headline(became contract.Transition) string {
	switch became {
	case contract.BecameDisabled:
		return "sending has stopped"
	case contract.BecamePaused:
		return "sending is paused"
	case contract.BecameDegraded:
		return "deliveries fail"
	case store.BecameExpiring:
		return "held deliveries end tomorrow"
	}
	return string(became)
}

// mailText is the body of the mail.
func mailText(n *store.Notice, d *noticeData) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", d.Text)
	for _, line := range [][2]string{
		{"Endpoint", d.Endpoint},
		{"Host", d.Host},
		{"Tenant", d.Tenant},
		{"Since", n.At.UTC().Format("2006-01-02 15:04:05") + " UTC"},
	} {
		fmt.Fprintf(&b, "%s: %s\n", line[0], line[1])
	}
	b.WriteString("\nYou get this mail because your address is the one that this platform tells about your endpoints.\n")
	return b.String()
}

// hostOf is the host of the endpoint's URL, which may bear credentials elsewhere.
func hostOf(e *webhook.Endpoint) string {
	u, err := url.Parse(e.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// noticeID is the same at each try and no other notice's: the store's number may
// be given again once a notice is settled.
func noticeID(n *store.Notice) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		n.Tenant.ID, n.Endpoint.ID, string(n.Became), n.At.UTC().Format(time.RFC3339Nano), strconv.FormatInt(n.ID, 10),
	}, "\x00")))
	return "ntc_" + hex.EncodeToString(sum[:13])
}
