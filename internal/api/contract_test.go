package api

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/contract"
	"github.com/posthorn/posthorn/internal/simulate"
)

// ours is a contract's file of an operator's own.
func ours(changes ...string) string {
	text, _ := contract.BuiltinYAML(contract.Standard)
	return strings.NewReplacer(append([]string{"name: standard", "name: ours"}, changes...)...).Replace(string(text))
}

func putYAML(name, text string) *ask {
	return to("PUT", "/v1/contracts/"+name, text).with("Content-Type", "application/yaml")
}

// TestContracts_StoredAndRevised: a file is kept as it was given; another wording is
// a revision, the same one changes nothing.
func TestContracts_StoredAndRevised(t *testing.T) {
	t.Parallel()
	s, change := watched()
	f := newFixture(t, change)
	first := f.send(putYAML("ours", ours())).is(201)
	if first.text("name") != "ours" || first.json["builtin"] != false || first.json["apiVersion"] != 1.0 || first.json["created_at"] == nil {
		t.Errorf("stored as %s", first.raw)
	}
	for _, media := range []string{"application/x-yaml", "text/yaml; charset=utf-8"} {
		if again := f.send(putYAML("ours", ours()).with("Content-Type", media)).is(200); again.text("revision") != first.text("revision") {
			t.Errorf("%s: the same file is revision %s", media, again.text("revision"))
		}
	}
	file := f.send(to("GET", "/v1/contracts/ours", "").with("Accept", "application/yaml")).is(200)
	if file.raw != ours() || file.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("the file is now %s: %s", file.header.Get("Content-Type"), file.raw)
	}
	second := f.send(putYAML("ours?under_way=adopt", ours("timeout: 15s", "timeout: 20s"))).is(200)
	if second.text("revision") == first.text("revision") || second.text("timeout") != "20s" {
		t.Errorf("revised as %s", second.raw)
	}
	if got := s.adopts[len(s.adopts)-1]; !got || s.adopts[0] {
		t.Errorf("adopted: %v", s.adopts)
	}
	rows := f.send(to("GET", "/v1/contracts/ours/revisions", "")).is(200).items()
	if len(rows) != 2 || rows[0]["revision"] != second.text("revision") || rows[0]["current"] != true || rows[1]["current"] != false || rows[1]["yaml"] != ours() {
		t.Errorf("revisions are %v", rows)
	}
	names := map[any]bool{}
	for _, one := range f.send(to("GET", "/v1/contracts", "")).is(200).items() {
		names[one["name"]] = true
	}
	if len(names) != 5 || !names["ours"] {
		t.Errorf("contracts are %v", names)
	}
	e := f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/","events":["*"],"contract":"ours"}`)).is(201)
	if e.text("contract_revision") != second.text("revision") {
		t.Errorf("the endpoint follows %s", e.text("contract_revision"))
	}
}

// TestContracts_ReadIsPut: what is read as JSON is the contract itself, for every one
// that there is, and can be put.
func TestContracts_ReadIsPut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, name := range contract.BuiltinNames() {
		promise, _ := contract.Builtin(name)
		got := f.send(to("GET", "/v1/contracts/"+name, "")).is(200)
		if got.text("revision") != promise.Revision() || got.json["builtin"] != true {
			t.Errorf("%s is %s", name, got.raw)
		}
		copied := strings.Replace(got.raw, `"name":"`+name+`"`, `"name":"copy-of-`+name+`"`, 1)
		stored := f.send(to("PUT", "/v1/contracts/copy-of-"+name, copied)).is(201)
		renamed := *promise
		renamed.Name = "copy-of-" + name
		if stored.text("revision") != renamed.Revision() {
			t.Errorf("%s was read and put as another contract:\n%s\nwant:\n%s", name, stored.raw, renamed.Canonical())
		}
		file := f.send(to("GET", "/v1/contracts/"+name, "").with("Accept", "text/yaml, application/json;q=0.5")).is(200)
		if text, _ := contract.BuiltinYAML(name); file.raw != string(text) {
			t.Errorf("the file of %s is %s", name, file.raw)
		}
	}
	// JSON that is no YAML as it stands.
	written := f.send(to("GET", "/v1/contracts/copy-of-standard", "")).is(200)
	var indented map[string]any
	if err := json.Unmarshal([]byte(written.raw), &indented); err != nil {
		t.Fatal(err)
	}
	indented["operator"] = "Ärger & 🦊"
	for _, name := range readOnly() {
		delete(indented, name)
	}
	text, _ := json.MarshalIndent(indented, "", "\t")
	escaped := strings.Replace(string(text), "🦊", `\ud83e\udd8a`, 1)
	one := f.send(to("PUT", "/v1/contracts/copy-of-standard", string(text))).is(200)
	two := f.send(to("PUT", "/v1/contracts/copy-of-standard", escaped)).is(200)
	if one.text("operator") != "Ärger & 🦊" || one.text("revision") != two.text("revision") {
		t.Errorf("read as %q and %q", one.text("operator"), two.text("operator"))
	}
}

// TestContracts_EveryFaultWithItsLine: all of what is wrong is said at once, where it
// stands, and the value is not repeated.
func TestContracts_EveryFaultWithItsLine(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bad := ours("timeout: 15s", "timeout: 99m", "  jitter: 0.10", "  jitter: 7")
	line := 1 + strings.Count(bad[:strings.Index(bad, "timeout: 99m")], "\n")
	got := f.send(putYAML("ours", bad)).problem(422, "invalid_field")
	fault := got.faultAt("/timeout", "invalid_field")
	got.faultAt("/schedule/jitter", "invalid_field")
	if want := "line " + strings.TrimSpace(jsonText(line)) + ": "; !strings.HasPrefix(fault["detail"].(string), want) {
		t.Errorf("the fault says %q, want %q", fault["detail"], want)
	}
	f.send(putYAML("other", ours())).problem(422, "invalid_field").faultAt("/name", "invalid_field")
	f.send(putYAML("ours", "a: [")).problem(422, "invalid_field").faultAt("", "invalid_field")
	f.send(putYAML("ours", "bogus: 1\n"+ours())).problem(422, "invalid_field").faultAt("", "invalid_field")
	// However much is wrong, the answer stays short.
	many := f.send(putYAML("ours", "headers: ["+strings.Repeat("~,", 10_000)+"]")).problem(422, "invalid_field")
	if n := len(many.json["errors"].([]any)); n != mostFaults || !strings.Contains(many.text("detail"), "10000 faults") {
		t.Errorf("%d faults: %s", n, many.text("detail"))
	}
	f.send(putYAML("ours", ours()+strings.Repeat("# much to say\n", 20_000))).problem(413, "too_large").faultAt("", "contract_bytes")
	f.send(to("PUT", "/v1/contracts/ours", `{"a":1,"a":2}`)).problem(400, "invalid_body")
	f.send(to("PUT", "/v1/contracts/ours", `[]`)).is(422)
	f.send(to("PUT", "/v1/contracts/ours", ours()).with("Content-Type", "text/plain")).problem(415, "unsupported_type")
	f.send(putYAML("ours?under_way=rewrite", ours())).problem(422, "invalid_field")
	f.send(to("GET", "/v1/contracts/ours", "")).problem(404, "not_found")
	f.send(to("GET", "/v1/contracts/ours/revisions", "")).problem(404, "not_found")
}

func jsonText(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// TestContracts_WhoMayChangeWhich: operators, and only their own.
func TestContracts_WhoMayChangeWhich(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := f.tenant("acme")
	f.send(putYAML("ours", ours()).key(key)).problem(403, "forbidden")
	f.send(to("DELETE", "/v1/contracts/ours", "").key(key)).problem(403, "forbidden")
	for _, name := range contract.BuiltinNames() {
		text, _ := contract.BuiltinYAML(name)
		f.send(putYAML(name, string(text))).problem(409, "conflict")
		f.send(to("DELETE", "/v1/contracts/"+name, "")).problem(409, "conflict")
	}
	if rows := f.send(to("GET", "/v1/contracts/standard/revisions", "").key(key)).is(200).items(); len(rows) != 1 || rows[0]["current"] != true {
		t.Errorf("revisions are %v", rows)
	}
}

// TestContracts_FollowersCanSign: a wording under which an endpoint could sign nothing
// any more is refused, wherever the endpoint stands in the list; others are not.
func TestContracts_FollowersCanSign(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.send(putYAML("ours", ours())).is(201)
	f.send(putYAML("other", strings.Replace(ours(), "name: ours", "name: other", 1))).is(201)
	put := func(id, contract, secret string) {
		f.send(to("PUT", "/v1/endpoints/"+id, `{"url":"https://example.com/","events":["*"],"contract":"`+contract+`"`+secret+`}`)).is(201)
	}
	seed := base64.StdEncoding.EncodeToString(make([]byte, 32))
	put("first", "ours", `,"secret":"whsk_`+seed+`"`)
	for i := range followersPage {
		put("more-"+strconv.Itoa(i), "other", "")
	}
	revision := f.send(to("GET", "/v1/contracts/ours", "")).is(200).text("revision")
	noKeys := ours("hmac-sha256, ed25519", "hmac-sha256")
	if noKeys == ours() {
		t.Fatal("the file does not say so")
	}
	got := f.send(putYAML("ours", noKeys)).problem(409, "conflict")
	if fault := got.faultAt("/signature", "conflict"); !strings.Contains(fault["detail"].(string), "endpoint first of tenant default") || strings.Contains(got.raw, seed) {
		t.Errorf("refused with %s", got.raw)
	}
	if now := f.send(to("GET", "/v1/contracts/ours", "")).is(200).text("revision"); now != revision {
		t.Error("it was stored all the same")
	}
	// Another wording that signs alike is taken, and this one once nobody is in its way.
	f.send(putYAML("ours", ours("timeout: 15s", "timeout: 20s"))).is(200)
	f.send(to("POST", "/v1/endpoints/first/rotate-secret", `{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw","revoke":true}`)).is(200)
	f.send(putYAML("ours", noKeys)).is(200)
	// A prefix that the secrets do not have is part of what is decoded.
	f.send(putYAML("ours", strings.Replace(noKeys, "prefix: whsec_", "prefix: other_", 1))).problem(409, "conflict")
	f.send(to("DELETE", "/v1/endpoints/first", "")).is(204)
	f.send(putYAML("ours", strings.Replace(noKeys, "prefix: whsec_", "prefix: other_", 1))).is(200)
}

// TestContracts_DeleteWhatNobodyUses: not while an endpoint or a tenant's default
// names it; its revisions stay.
func TestContracts_DeleteWhatNobodyUses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.send(to("DELETE", "/v1/contracts/ours", "")).problem(404, "not_found")
	f.send(putYAML("ours", ours())).is(201)
	f.send(to("PUT", "/v1/endpoints/mine", `{"url":"https://example.com/","events":["*"],"contract":"ours"}`)).is(201)
	f.send(to("DELETE", "/v1/contracts/ours", "")).problem(409, "conflict")
	f.send(to("PATCH", "/v1/endpoints/mine", `{"contract":"standard"}`)).is(200)
	f.send(to("PATCH", "/v1/tenants/default", `{"default_contract":"ours"}`)).is(200)
	if got := f.send(to("DELETE", "/v1/contracts/ours", "")).problem(409, "conflict"); !strings.Contains(got.text("detail"), "in use") {
		t.Errorf("it is not said why: %s", got.raw)
	}
	f.send(to("PATCH", "/v1/tenants/default", `{"default_contract":null}`)).is(200)
	f.send(to("DELETE", "/v1/contracts/ours", "")).is(204)
	f.send(to("GET", "/v1/contracts/ours", "")).problem(404, "not_found")
	f.send(to("POST", "/v1/endpoints", `{"url":"https://example.com/","events":["*"],"contract":"ours"}`)).problem(422, "invalid_field").faultAt("/contract", "invalid_field")
	if rows := f.send(to("GET", "/v1/contracts/ours/revisions", "")).is(200).items(); len(rows) != 1 || rows[0]["current"] != false {
		t.Errorf("revisions are %v", rows)
	}
	f.send(putYAML("ours", ours())).is(201)
}

// TestContracts_SimulateAsTheCommandDoes: the same code, the same fields.
func TestContracts_SimulateAsTheCommandDoes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const list = "500*3,429:retry-after=120,timeout,410,200"
	answers, err := simulate.ParseAnswers(list)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(7)
	for _, name := range contract.BuiltinNames() {
		promise, _ := contract.Builtin(name)
		text, _ := contract.BuiltinYAML(name)
		for body, want := range map[string][]simulate.Step{
			`{"contract":"` + name + `","answers":"` + list + `","jitter":false}`:           simulate.Play(promise, answers, nil),
			`{"contract":` + jsonText(string(text)) + `,"answers":"` + list + `","seed":7}`: simulate.Play(promise, answers, simulate.Random(&seed)),
		} {
			var got struct{ Steps []simulate.Step }
			if err := json.Unmarshal([]byte(f.send(to("POST", "/v1/contracts/simulate", body)).is(200).raw), &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Steps, want) {
				t.Errorf("%s: %v, want %v", name, got.Steps, want)
			}
		}
	}
	f.send(to("POST", "/v1/contracts/simulate", `{"contract":"none","answers":"200"}`)).problem(422, "invalid_field").faultAt("/contract", "invalid_field")
	f.send(to("POST", "/v1/contracts/simulate", `{"contract":"standard","answers":"often"}`)).problem(422, "invalid_field").faultAt("/answers", "invalid_field")
	bad := jsonText(ours("timeout: 15s", "timeout: 99m"))
	f.send(to("POST", "/v1/contracts/simulate", `{"contract":`+bad+`,"answers":"200"}`)).problem(422, "invalid_field").faultAt("/contract/timeout", "invalid_field")
}
