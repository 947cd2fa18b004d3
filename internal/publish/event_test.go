package publish

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posthorn/posthorn/internal/webhook"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func parse(body string) (Event, error) { return ParseEvent([]byte(body), Limits{}, noon) }

// mustParse is for bodies that must be taken.
func mustParse(t *testing.T, body string) Event {
	t.Helper()
	e, err := parse(body)
	if err != nil {
		t.Fatalf("%.200q was refused: %v", body, err)
	}
	return e
}

// refused is for bodies that must be refused with a code.
func refused(t *testing.T, body []byte, code webhook.Code) *webhook.Problem {
	t.Helper()
	_, err := ParseEvent(body, Limits{}, noon)
	p, ok := webhook.AsProblem(err)
	if !ok || p.Code != code {
		t.Fatalf("%.200q: got %v, want %s", body, err, code)
	}
	return p
}

func TestParseEvent_Fields(t *testing.T) {
	t.Parallel()
	e := mustParse(t, ` { "id":"order-1", "type":"order.paid", "data" : {"n":1} , "created_at":"2026-01-31T13:00:00.123999+01:00",
		"ordering_key":"k\u00e9", "expires_at":"2026-02-01T00:00:00Z"} `)
	e.Fingerprint = [32]byte{}
	want := Event{
		ID: "order-1", Type: "order.paid", Data: []byte(`{"n":1}`), ContentType: "application/json", OrderingKey: "ké",
		CreatedAt: noon.Add(123 * time.Millisecond), ExpiresAt: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Fatal(diff)
	}
	if e := mustParse(t, `{"d\u0061ta":null,"typ\u0065":"a\u002eb"}`); e.Type != "a.b" || string(e.Data) != "null" {
		t.Fatalf("escaped names and values: %+v", e)
	}
}

func TestParseEvent_Refusals(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	tests := []struct {
		body string
		want string // code and pointers
	}{
		{`{}`, "invalid_field /type /data"},
		{`{"type":"a"}`, "invalid_field /data"},
		{`{"data":1}`, "invalid_field /type"},
		{`{"type":"a","data":1,"tpye":2}`, "unknown_field /tpye"},
		{`{"type":"a","data":1,"a/b~c":2}`, "unknown_field /a~1b~0c"},
		{`{"type":"a","data":1,"` + long + `":2}`, "unknown_field "},
		{`{"type":"a","data":1,"Type":2}`, "unknown_field /Type"},
		{`{"type":"a","nope":1}`, "invalid_field /nope /data"},
		{`{"type":"a..b","data":1}`, "invalid_field /type"},
		{`{"type":"` + long + `","data":1}`, "invalid_field /type"},
		{`{"type":null,"data":1}`, "invalid_field /type"},
		{`{"type":7,"data":1}`, "invalid_field /type"},
		{`{"type":"\ud800","data":1}`, "invalid_field /type"},
		{`{"type":"webhook.failed","data":1}`, "invalid_field /type"},
		{`{"type":"a","data":1,"id":""}`, "invalid_field /id"},
		{`{"type":"a","data":1,"id":"a.b"}`, "invalid_field /id"},
		{`{"type":"a","data":1,"id":"` + long + `"}`, "invalid_field /id"},
		{`{"type":"a","data":1,"id":"own_1"}`, "invalid_field /id"},
		{`{"type":"a","data":1,"ordering_key":""}`, "invalid_field /ordering_key"},
		{`{"type":"a","data":1,"ordering_key":"\u0000"}`, "invalid_field /ordering_key"},
		{`{"type":"a","data":1,"ordering_key":"\u0085"}`, "invalid_field /ordering_key"},
		{`{"type":"a","data":1,"ordering_key":"` + long + long + `"}`, "invalid_field /ordering_key"},
		{`{"type":"a","data":1,"created_at":"yesterday"}`, "invalid_field /created_at"},
		{`{"type":"a","data":1,"created_at":"2026-01-31T12:00:00,5Z"}`, "invalid_field /created_at"},
		{`{"type":"a","data":1,"created_at":"2026-01-31"}`, "invalid_field /created_at"},
		{`{"type":"a","data":1,"created_at":"2026-01-31T2:00:00.0Z"}`, "invalid_field /created_at"},
		{`{"type":"a","data":1,"created_at":"2026-01-31T12:00:00+24:00"}`, "invalid_field /created_at"},
		{`{"type":"a","data":1,"created_at":"2026-01-31T12:00:00"}`, "invalid_field /created_at"},
		{`{"type":"a","data":1,"created_at":"0000-01-01T00:00:00+23:00"}`, "invalid_field /created_at"},
		{`{"type":"a","data":1,"created_at":"0001-01-01T00:00:00Z"}`, "invalid_field /created_at"},
		{`{"type":"a","data":1,"created_at":1769860800}`, "invalid_field /created_at"},
		{`{"type":"a","data":1,"deliver_at":"2026-03-02T12:00:00.001Z"}`, "deliver_at_ahead /deliver_at"},
		{`{"type":"a","data":1,"deliver_at":"2026-01-31T11:00:00Z","expires_at":"2026-01-31T10:00:00Z"}`, "invalid_field /expires_at"},
		{`{"type":"a","data":1,"deliver_at":"2026-02-01T00:00:00Z","expires_at":"2026-02-01T00:00:00Z"}`, "invalid_field /expires_at"},
	}
	for _, tt := range tests {
		limits := Limits{IsOwn: func(id string) bool { return strings.HasPrefix(id, "own_") }}
		_, err := ParseEvent([]byte(tt.body), limits, noon)
		p, ok := webhook.AsProblem(err)
		if !ok {
			t.Errorf("%.100q was taken", tt.body)
			continue
		}
		got := string(p.Code)
		if p.Fields[0].Code == LimitDeliverAt {
			got = string(LimitDeliverAt)
		}
		for _, f := range p.Fields {
			got += " " + f.Pointer
			if f.Detail == "" || f.Allowed == "" {
				t.Errorf("%.100q: %s lacks its texts", tt.body, f.Pointer)
			}
		}
		if got != tt.want {
			t.Errorf("%.100q: got %q, want %q", tt.body, got, tt.want)
		}
	}
}

func TestParseEvent_NeverEchoesValues(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"type":"s3cret!","data":1,"id":"s3cret!","created_at":"s3cret","ordering_key":"s3cret\u0000"}`,
		`{"type":"a","data":s3cret}`, `{"type":"a","data":"s3cret` + "\x01" + `"}`, `{"type":"a","data":1} s3cret`, `s3cret`,
	} {
		_, err := parse(body)
		p, ok := webhook.AsProblem(err)
		if !ok {
			t.Fatalf("%q was taken", body)
		}
		if text := fmt.Sprintf("%s %+v", p.Error(), *p); strings.Contains(text, "s3cret") {
			t.Errorf("%q is echoed: %s", body, text)
		}
	}
}

func TestEngine_N15_DeliverAtWithOrderingKeyIsRefused(t *testing.T) {
	t.Parallel()
	p := refused(t, []byte(`{"type":"a","data":1,"ordering_key":"k","deliver_at":"2026-02-01T00:00:00Z"}`), webhook.CodeInvalidField)
	if p.Fields[0].Pointer != "/deliver_at" {
		t.Fatalf("%+v", p.Fields)
	}
	e := mustParse(t, `{"type":"a","data":1,"deliver_at":"2026-03-02T12:00:00Z"}`)
	if want := noon.Add(30 * 24 * time.Hour); !e.DeliverAt.Equal(want) {
		t.Fatalf("deliver_at at the limit: %v", e.DeliverAt)
	}
	e = mustParse(t, `{"type":"a","data":1,"deliver_at":"2020-01-01T00:00:00Z"}`)
	if !e.DeliverAt.Equal(noon) {
		t.Fatalf("a past deliver_at must count as now: %v", e.DeliverAt)
	}
}

func TestFault_B10_EscapedZeroAndLoneSurrogatePassByteForByte(t *testing.T) {
	t.Parallel()
	for _, data := range []string{`{"t":"a\u0000b"}`, `{"t":"a\u0000b","s":"\ud800"}`, `"\udc00\ud800"`, `{"\ud800":1}`} {
		e := mustParse(t, `{"type":"note.made","data":`+data+`}`)
		if string(e.Data) != data {
			t.Errorf("%s became %s", data, e.Data)
		}
	}
	p := refused(t, []byte("{\"type\":\"note.made\",\"data\":{\"t\":\"a\x00b\"}}"), webhook.CodeInvalidBody)
	if !strings.Contains(p.Detail, "raw control character") || !strings.Contains(p.Detail, "at byte 34") {
		t.Errorf("the reason is not named: %s", p.Detail)
	}
}

func TestFault_B22_DataBytesAreKept(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		`{ "z":1, "a":"<b>&\u00e9 é \/ \u2028","n":1.0,"e":1e3,"big":12345678901234567890 }`,
		`{"a":1,"a":2}`,
		"[\t1 ,\r\n2]",
	} {
		for _, body := range []string{
			`{"type":"a","data":` + data + `}`,
			"{\"data\": \t\r\n" + data + " \n ,\"type\":\"a\"}\n",
		} {
			if e := mustParse(t, body); string(e.Data) != data {
				t.Errorf("%q became %q", data, e.Data)
			}
		}
	}
}

func TestFault_B87_EveryKindOfBodyIsTakenWholeOrRefused(t *testing.T) {
	t.Parallel()
	random := make([]byte, 1024)
	_, _ = rand.Read(random)
	random[0] = 0xFF
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for name, body := range map[string]string{
		"empty":             "",
		"white space":       " \n",
		"text":              "x",
		"form":              "a=1+2&b==&c=%2B",
		"XML with a BOM":    "\xEF\xBB\xBF<a/>",
		"random bytes":      string(random),
		"NDJSON":            `{"type":"a","data":1}` + "\n" + `{"type":"a","data":1}`,
		"null":              "null",
		"array":             "[]",
		"JSON with a BOM":   "\xEF\xBB\xBF" + `{"type":"a","data":1}`,
		"UTF-16":            "{\x00\"\x00",
		"invalid UTF-8":     "{\"type\":\"a\",\"data\":\"\xC3\x28\"}",
		"overlong":          "{\"type\":\"a\",\"data\":\"\xC0\x80\"}",
		"encoded surrogate": "{\"type\":\"a\",\"data\":\"\xED\xA0\x80\"}",
		"deep":              deep,
		"deep in data":      `{"type":"a","data":` + deep + `}`,
		"one too deep":      `{"type":"a","data":` + strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1) + `}`,
		"cut":               `{"type":"a","data":{"n":1}`,
		"member twice":      `{"type":"a","data":1,"data":1}`,
		"twice, escaped":    `{"type":"a","data":1,"d\u0061ta":1}`,
		"unknown twice":     `{"type":"a","data":1,"x":1,"x":2}`,
		"comma":             `{"type":"a","data":1,}`,
		"single quotes":     `{'type':'a','data':1}`,
		"no colon":          `{"type" "a"}`,
		"NaN":               `{"type":"a","data":NaN}`,
		"leading zero":      `{"type":"a","data":01}`,
		"comment":           `{"type":"a","data":1/**/}`,
		"raw newline":       "{\"type\":\"a\",\"data\":\"\n\"}",
		"zero behind":       `{"type":"a","data":1}` + "\x00",
		"name no Unicode":   `{"\ud800":1}`,
	} {
		p := refused(t, []byte(body), webhook.CodeInvalidBody)
		if len(p.Detail) < 20 {
			t.Errorf("%s: no reason: %q", name, p.Detail)
		}
	}
	if p := refused(t, []byte("\xEF\xBB\xBF{}"), webhook.CodeInvalidBody); !strings.Contains(p.Detail, "byte order mark") {
		t.Errorf("the byte order mark is not named: %s", p.Detail)
	}
	for _, data := range []string{
		"null", "[]", `""`, "0", "-0.0e-0", "true", `"x"`, strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
	} {
		if e := mustParse(t, `{"type":"a","data":`+data+`}`); string(e.Data) != data {
			t.Errorf("%.20s was changed", data)
		}
	}
}

func TestFault_B95_ParsingIsBounded(t *testing.T) { // not parallel: it counts allocations
	most := `"` + strings.Repeat("x", DefaultEventBytes-2) + `"`
	if e := mustParse(t, `{"type":"a","data": `+most+` }`); len(e.Data) != DefaultEventBytes {
		t.Fatalf("data of the limit's size has %d bytes", len(e.Data))
	}
	p := refused(t, []byte(`{"type":"a","data":"x`+most[1:]+`}`), webhook.CodeTooLarge)
	if f := p.Fields[0]; f.Code != LimitEventBytes || f.Pointer != "/data" {
		t.Fatalf("%+v", f)
	}

	hostile := map[string]string{
		"depth":   `{"type":"a","data":` + strings.Repeat(`[{"a":`, 1<<20),
		"members": `{` + manyMembers(20_000) + `"type":"a","data":1}`,
		"long":    `{"` + strings.Repeat("x", 1<<20) + `":1}`,
		"space":   strings.Repeat(" ", 1<<20),
		"quotes":  strings.Repeat(`"`, 1<<20),
	}
	for name, body := range hostile {
		text := []byte(body)
		made := testing.AllocsPerRun(1, func() {
			if _, err := ParseEvent(text, Limits{}, noon); err == nil {
				t.Errorf("%s was taken", name)
			}
		})
		if made > 100 {
			t.Errorf("%s: %v allocations for one refusal", name, made)
		}
	}
	p = refused(t, []byte(hostile["members"]), webhook.CodeUnknownField)
	if len(p.Fields) != maxFaults {
		t.Errorf("%d faults listed", len(p.Fields))
	}
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"m%d":%d,`, i, i)
	}
	return b.String()
}

func TestEngine_N3_FingerprintIsTheContentAsGiven(t *testing.T) {
	t.Parallel()
	base := `{"id":"k1","type":"a.b","data":{"n":1},"created_at":"2026-01-31T12:00:00Z","ordering_key":"k","expires_at":"2026-02-01T00:00:00Z"}`
	e := mustParse(t, base)
	h := sha256.New()
	for _, part := range []string{"a.b", `{"n":1}`, "2026-01-31T12:00:00Z", "k", "", "2026-02-01T00:00:00Z"} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part)))
		h.Write([]byte(part))
	}
	if !bytes.Equal(h.Sum(nil), e.Fingerprint[:]) {
		t.Fatal("the fingerprint is not SHA-256 over the six parts, each with its length before it")
	}
	same := []string{
		strings.ReplaceAll(base, `,"`, ` , "`),
		strings.ReplaceAll(base, `"id":"k1",`, ""),
		strings.ReplaceAll(base, `"a.b"`, `"a\u002eb"`),
	}
	for _, body := range same {
		if mustParse(t, body).Fingerprint != e.Fingerprint {
			t.Errorf("%s must be the same event", body)
		}
	}
	other := [][2]string{
		{`{"n":1}`, `{"n":2}`}, {`{"n":1}`, `{ "n":1 }`}, {`"a.b"`, `"a.c"`}, {`"k"`, `"kk"`},
		{`12:00:00Z`, `12:00:00.000Z`}, {`"2026-02-01T00:00:00Z"`, `"2026-02-01T00:00:01Z"`}, {`"ordering_key":"k",`, ``},
	}
	for _, change := range other {
		if body := strings.Replace(base, change[0], change[1], 1); mustParse(t, body).Fingerprint == e.Fingerprint {
			t.Errorf("%s must be another event", body)
		}
	}
	// Without lengths these two would hash the same text.
	if mustParse(t, `{"type":"ab","data":1}`).Fingerprint == mustParse(t, `{"type":"a","data":1,"ordering_key":"b"}`).Fingerprint {
		t.Error("parts can be shifted")
	}
}

func TestFault_B68_KeysOfEveryKind(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"k", strings.Repeat("k", 256), "%00", "🔑", strings.Repeat("k", maxKeyLength)} {
		if err := CheckKey(key); err != nil {
			t.Errorf("%q was refused: %v", key, err)
		}
	}
	for _, key := range []string{"", strings.Repeat("k", maxKeyLength+1), "a\x00", "a\tb", "\x7f"} {
		if p, ok := webhook.AsProblem(CheckKey(key)); !ok || p.Code != webhook.CodeInvalidField {
			t.Errorf("%q: got %v", key, p)
		}
	}
	seen := map[string]bool{}
	for _, of := range []struct {
		tenant, key string
		line        int
	}{{"a", "k1", 1}, {"b", "k1", 1}, {"a", "k2", 1}, {"a", "k1", 2}, {"ak", "1", 1}} {
		id := DeriveID(of.tenant, of.key, of.line)
		if seen[id] || !webhook.ValidEventID(id) || id != DeriveID(of.tenant, of.key, of.line) {
			t.Errorf("%+v gives %q", of, id)
		}
		seen[id] = true
	}
}

func FuzzParseEvent(f *testing.F) {
	for _, seed := range []string{
		`{"type":"a","data":{"t":"a\u0000b","s":"\ud800"}}`, `{"id":"x","type":"a.b","data":[1,{"a":1,"a":2}],"ordering_key":"k"}`,
		`{"type":"a","data":1,"deliver_at":"2026-02-01T00:00:00Z","expires_at":"2026-02-02T00:00:00+01:00"}`,
		`{"type":"a","data":1,"x":2}`, `{}`, ``, `[]`, "\xEF\xBB\xBF{}", `{"type":"a","data":`, `{"typ\u0065":"a" , "data" : null } `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		e, err := ParseEvent(body, Limits{EventBytes: 1 << 10}, noon)
		if !bytes.Equal(before, body) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			p, ok := webhook.AsProblem(err)
			if !ok || p.Detail == "" || len(p.Fields) > maxFaults {
				t.Fatalf("refused with %#v", err)
			}
			return
		}
		if !bytes.Contains(body, e.Data) || scan(e.Data) != nil || !webhook.ValidEventType(e.Type) || webhook.Operational(e.Type) {
			t.Fatalf("taken as %+v", e)
		}
		if len(e.Data) != len(bytes.TrimSpace(e.Data)) || len(e.Data) > 1<<10 {
			t.Fatalf("data is %q", e.Data)
		}
		again, err := ParseEvent(append([]byte(" \n"), body...), Limits{}, noon)
		if err != nil || !cmp.Equal(again, e) {
			t.Fatalf("parsed again: %+v, %v", again, err)
		}
		rebuilt := fmt.Appendf(nil, `{"data":%s,"type":%q}`, e.Data, e.Type)
		if again, err = ParseEvent(rebuilt, Limits{}, noon); err != nil || !bytes.Equal(again.Data, e.Data) {
			t.Fatalf("rebuilt: %v", err)
		}
	})
}

func BenchmarkParseEvent(b *testing.B) {
	text := kibibyte()
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := ParseEvent(text, Limits{}, noon); err != nil {
			b.Fatal(err)
		}
	}
}
