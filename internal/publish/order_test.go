package publish

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

// keysOf matches an event and returns its keys, by target.
func keysOf(r *Registry, p store.AcceptParams) []string {
	p.Tenant = "default"
	r.Match(&p)
	return p.Keys
}

// under is an endpoint that follows a contract.
func under(key webhook.EndpointKey, name string, events ...string) *webhook.Endpoint {
	e := endpoint(key, "default", events...)
	e.Contract = name
	return e
}

func TestElido_E9_WhereTheKeyComesFrom(t *testing.T) {
	t.Parallel()
	r := loaded(under(1, "elido", "*"))
	long := strings.Repeat("k", webhook.MaxOrderingKeyLength)
	for _, c := range []struct{ given, data, want string }{
		{"", `{"link_id":"lnk_1"}`, "lnk_1"},
		{"", `{"link":{"id":"lnk_2"}}`, "lnk_2"},
		{"", ` { "a" : [ {"link_id":"no"} ], "link" : {"id":"no"} , "link_id" : "lnk_1" } `, "lnk_1"},
		{"mine", `{"link_id":"lnk_1"}`, "mine"},
		{"", `{"link_id":17}`, "17"},
		{"", `{"link_id":-1.50e3}`, "-1.50e3"},
		{"", `{"link_id":"","link":{"id":"lnk_2"}}`, "lnk_2"},
		{"", `{"link_id":null,"link":{"id":"lnk_2"}}`, "lnk_2"},
		{"", `{"link_id":true,"link":{"id":{"x":1}}}`, ""},
		{"", `{"link_id":["lnk_1"]}`, ""},
		{"", `{"link":"lnk_1"}`, ""},
		{"", `{"link":{}}`, ""},
		{"", `{}`, ""},
		{"", `[{"link_id":"lnk_1"}]`, ""},
		{"", `"link_id"`, ""},
		{"", `null`, ""},
		{"", `no JSON`, ""},
		{"", `{"link_id":"lnk_1"`, ""},
		{"", `{"link_id":"first","link_id":"last"}`, "last"},
		{"", `{"l\u0069nk_id":"J\u00f6rg \"x\""}`, `Jörg "x"`},
		{"", `{"link_id":"\ud800"}`, `\ud800`},
		{"", `{"link_id":"` + long + `"}`, long},
		{"", `{"link_id":"` + long + `k"}`, "sha256:"},
	} {
		got := keysOf(r, store.AcceptParams{Type: "click", OrderingKey: c.given, Data: []byte(c.data)})
		if strings.HasPrefix(c.want, "sha256:") {
			if len(got) != 1 || !strings.HasPrefix(got[0], "sha256:") || len(got[0]) != len("sha256:")+64 {
				t.Errorf("a long key became %v", got)
			}
			continue
		}
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		if !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%q, %.60s: got %q, want %q", c.given, c.data, got, want)
		}
	}
}

// Only endpoints whose contract orders, or that ask for it themselves, have lines.
func TestEngine_N15_WhoHasLines(t *testing.T) {
	t.Parallel()
	asks, from, own := under(3, "standard", "*"), under(4, "standard", "*"), under(5, "elido", "*")
	asks.Ordering = &webhook.Ordering{}
	from.Ordering = &webhook.Ordering{From: []string{"data.user", "data.link_id"}}
	own.Ordering = &webhook.Ordering{From: []string{"data.user"}}
	r := loaded(under(1, "standard", "*"), under(2, "elido", "*"), asks, from, own, under(6, "petify", "click"))
	data := []byte(`{"link_id":"lnk_1","user":"u"}`)
	for _, c := range []struct {
		eventType, given string
		data             []byte
		want             []string
	}{
		{"click", "", data, []string{"", "lnk_1", "", "u", "u", ""}},
		{"click", "k", data, []string{"", "k", "k", "k", "k", ""}},
		{"other", "", []byte(`{"link_id":"lnk_1"}`), []string{"", "lnk_1", "", "lnk_1", ""}},
		{"click", "", []byte(`{}`), nil},
	} {
		got := keysOf(r, store.AcceptParams{Type: c.eventType, OrderingKey: c.given, Data: c.data})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s, %q, %s: %s", c.eventType, c.given, c.data, diff)
		}
	}
	if got := keysOf(loaded(under(1, "standard", "*")), store.AcceptParams{Type: "click", OrderingKey: "k"}); got != nil {
		t.Errorf("a contract that does not order has keys %v", got)
	}
}

func TestEngine_N15_DeliverAtAndAKeyOfThePublishersContradict(t *testing.T) {
	t.Parallel()
	p := refused(t, []byte(`{"type":"a","data":1,"deliver_at":"2026-02-01T00:00:00Z","ordering_key":"k"}`), webhook.CodeInvalidField)
	if len(p.Fields) != 1 || p.Fields[0].Pointer != "/deliver_at" || !strings.Contains(p.Fields[0].Detail, "ordering_key") {
		t.Fatalf("%+v", p.Fields)
	}
	// A key that the data has is no contradiction: it joins its line when its time comes.
	e := mustParse(t, `{"type":"a","data":{"link_id":"lnk_1"},"deliver_at":"2026-02-01T00:00:00Z"}`)
	got := keysOf(loaded(under(1, "elido", "*")), store.AcceptParams{Type: e.Type, Data: e.Data, DeliverAt: e.DeliverAt})
	if !slices.Equal(got, []string{"lnk_1"}) {
		t.Fatalf("keys %v", got)
	}
}

func TestEngine_N19_OperationalEventsStandInNoLine(t *testing.T) {
	t.Parallel()
	ordered := under(1, "elido", "endpoint.*")
	ordered.Ordering = &webhook.Ordering{From: []string{"data.endpoint"}}
	p, err := Operational(loaded(ordered).Match, "default", webhook.TypeEndpointPaused, map[string]string{"endpoint": "ep_1", "link_id": "lnk_1"}, noon, noon)
	if err != nil || len(p.Targets) != 1 || p.Keys != nil {
		t.Fatalf("%+v, %v", p, err)
	}
}

// FuzzKeyAt holds the scan for a key against a decoder.
func FuzzKeyAt(f *testing.F) {
	for _, data := range []string{
		`{"a":{"b":"x"}}`, `{"a":{"b":1},"a":{"c":2}}`, `{"\u0061":{"b":"\u00e9\n"}}`, `{"a":[{"b":1}],"b":"a"}`, `{"a":{"b":null}}`, `[]`, `{"a":{"b":-0.5e1}} `,
	} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data string) {
		key := keyAt([]byte(data), "a.b")
		var decoded map[string]json.RawMessage
		if asData(data) != nil || json.Unmarshal([]byte(data), &decoded) != nil {
			return
		}
		var inner map[string]json.RawMessage
		if json.Unmarshal(decoded["a"], &inner) != nil {
			inner = nil
		}
		want, text := string(inner["b"]), ""
		switch {
		case strings.HasPrefix(want, `"`):
			if json.Unmarshal(inner["b"], &text) == nil {
				want = text
			}
		case strings.TrimLeft(want, "-0123456789.eE+") != "":
			want = ""
		}
		if len(want) <= webhook.MaxOrderingKeyLength && key != want && !strings.Contains(want, "\uFFFD") {
			t.Fatalf("%q: got %q, want %q", data, key, want)
		}
	})
}

// asData tells whether a text can be an event's data.
func asData(data string) error {
	_, err := parse(`{"type":"a","data":` + data + `}`)
	return err
}
