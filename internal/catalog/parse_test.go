package catalog

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/contract"
)

func TestParse_RefusesWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"section":            {"words: {}", "line 1: section words is not known"},
		"key":                {"texts:\n  kind: {gone: {remedies: x}}", "line 2: key kind.gone.remedies is not known"},
		"member":             {"texts: {status: {dad: {label: x}}}", "key status.dad.label is not known"},
		"key of a set":       {"texts: {status: {dead: x}}", "key status.dead is not known"},
		"key of a contract":  {"contracts:\n  acme:\n    banner: {person: x}", "line 3: key banner.person is not known"},
		"fact":               {"when: {full_moon: {}}", "fact full_moon is not known"},
		"parameter":          {"contracts: {acme: {word: {log: 'the {log}'}}}", "word.log has a brace that opens no known parameter"},
		"open brace":         {"contracts: {acme: {word: {log: 'the {timeout'}}}", "word.log has a brace"},
		"unit":               {"units: {week: {other: '{n} weeks'}}", "unit week is not known"},
		"form":               {"units: {day: {few: '{n} days'}}", "unit day has no form few"},
		"unit without place": {"units: {day: {other: days}}", "unit day needs {n} once"},
		"unit of two places": {"units: {day: {other: '{n} {n}'}}", "unit day needs {n} once"},
		"number":             {"texts: {word: {log: 5}}", "word.log has to be a text"},
		"nothing":            {"texts: {word: {log: }}", "word.log has to be a text"},
		"empty":              {"texts: {word: {log: ''}}", "word.log has to be a text"},
		"spaces":             {"texts: {word: {log: ' x'}}", "without spaces around it"},
		"list":               {"texts: {word: [log]}", "has to be a mapping"},
		"text for texts":     {"texts: x", "has to be a mapping"},
		"twice":              {"texts: {word: {log: x, log: y}}", "line 1: log stands here for the second time"},
		"no YAML":            {"texts: [", ""},
		"a list of words":    {"- x", "has to be a mapping"},
	} {
		_, err := parse(English, []byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

// A parameter stands only where every contract that gets the text fills it.
func TestParse_RefusesAParameterThatMayBeEmpty(t *testing.T) {
	t.Parallel()
	for _, p := range params() {
		text := "word: {log: 'x {" + string(p) + "}'}"
		if _, err := parse(English, []byte("texts: {"+text+"}")); err == nil {
			t.Errorf("{%s} may stand in a text for no contract in particular", p)
		}
		if _, err := parse(English, []byte("contracts: {acme: {"+text+"}}")); err != nil {
			t.Errorf("{%s} may not stand in a contract's own text: %v", p, err)
		}
		for _, f := range facts() {
			_, err := parse(English, []byte("when: {"+string(f)+": {"+text+"}}"))
			if (err == nil) != p.filledUnder(f) {
				t.Errorf("{%s} where %s: %v", p, f, err)
			}
		}
	}
}

// Of a contract that promises as little as it may, each fact is true when its
// promise is added and only then; and what texts may say of it has a value.
func TestFact_HoldsAndFills(t *testing.T) {
	t.Parallel()
	l := loaded(t).languages[English]
	promises := map[fact]func(c *contract.Contract){
		goneDisables:  func(c *contract.Contract) { c.Stop = []contract.Stop{{On: contract.KindGone, Disable: true}} },
		endsDead:      func(c *contract.Contract) { c.Exhausted.Status = contract.StatusDead },
		skipsWhileOff: func(c *contract.Contract) { c.Off.New, c.Off.Waiting = contract.FateSkip, contract.FateSkip },
		deliversRuns:  func(c *contract.Contract) { c.Delivers = contract.DeliversRun },
		operatorNamed: func(c *contract.Contract) { c.Operator = "Acme" },
		pauses:        func(c *contract.Contract) { c.Pause.After = 5 },
		degrades:      func(c *contract.Contract) { c.Degrade.After, c.Degrade.For = 3, contract.Duration(time.Hour) },
		wantsSuccess:  func(c *contract.Contract) { c.Disable.NoSuccessFor = contract.Duration(time.Hour) },
		heedsAny:      func(c *contract.Contract) { c.RetryAfter.Any, c.RetryAfter.Max = true, contract.Duration(time.Hour) },
		heedsSome: func(c *contract.Contract) {
			c.RetryAfter.On, c.RetryAfter.Max = []int{429}, contract.Duration(time.Hour)
		},
		keepsResponse:   func(c *contract.Contract) { c.Response.Keep = 1 },
		contractIsKnown: func(*contract.Contract) {},
		lengthensWait:   func(c *contract.Contract) { c.RetryAfter.Any, c.RetryAfter.Max = true, contract.Duration(time.Hour) },
		replacesWait: func(c *contract.Contract) {
			c.RetryAfter = contract.RetryAfter{Any: true, Max: contract.Duration(time.Hour), Mode: "replace"}
		},
	}
	// Heeding Retry-After comes with a way of doing it.
	with := map[fact][]fact{
		heedsAny: {lengthensWait}, heedsSome: {lengthensWait}, lengthensWait: {heedsAny}, replacesWait: {heedsAny},
	}
	for _, f := range facts() {
		c, err := contract.Parse([]byte(bareContract))
		if err != nil {
			t.Fatal(err)
		}
		promises[f](c)
		for _, other := range facts() {
			want := other == f || other == contractIsKnown || slices.Contains(with[f], other)
			if other.holds(c) != want {
				t.Errorf("where %s, %s: %t", f, other, other.holds(c))
			}
		}
		for _, p := range params() {
			value := l.value(p, c)
			if empty := value == "" || strings.HasPrefix(value, "0 "); p.filledUnder(f) && empty {
				t.Errorf("where %s, {%s} is %q", f, p, value)
			}
		}
	}
}

// The order of facts is that of finding: the first that holds gives the text.
func TestFind_TheMostParticularTextIsGiven(t *testing.T) {
	t.Parallel()
	l, err := parse(English, []byte(`
texts: {word: {log: base, time: base}}
when:
  contract_is_known: {word: {log: any}}
  pauses: {word: {log: pauses}}
contracts:
  elido: {word: {log: own}}
`))
	if err != nil {
		t.Fatal(err)
	}
	texts := Texts{own: l, english: l}
	for _, tt := range []struct {
		under *contract.Contract
		want  string
	}{
		{nil, "base"},
		{builtin(t, contract.Standard), "any"},
		{altered(t, "elido", func(*contract.Contract) {}), "pauses"},
		{builtin(t, "elido"), "own"},
	} {
		if got := texts.Word(tt.under, WordLog); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		if got := texts.Word(tt.under, WordTime); got != "base" {
			t.Errorf("a text without variants is %q", got)
		}
	}
}

func TestTexts_Duration(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	const day = 24 * time.Hour
	for _, tt := range []struct {
		d          time.Duration
		en, ja, ko string
	}{
		{0, "0 seconds", "0 秒", "0초"},
		{-time.Second, "0 seconds", "0 秒", "0초"},
		{time.Microsecond, "0 seconds", "0 秒", "0초"},
		{time.Millisecond, "1 millisecond", "1 ミリ秒", "1밀리초"},
		{1500 * time.Millisecond, "1 second 500 milliseconds", "1 秒 500 ミリ秒", "1초 500밀리초"},
		{time.Second, "1 second", "1 秒", "1초"},
		{10 * time.Second, "10 seconds", "10 秒", "10초"},
		{time.Minute, "1 minute", "1 分", "1분"},
		{90 * time.Second, "1 minute 30 seconds", "1 分 30 秒", "1분 30초"},
		{time.Hour, "1 hour", "1 時間", "1시간"},
		{day, "24 hours", "24 時間", "24시간"},
		{36 * time.Hour, "36 hours", "36 時間", "36시간"},
		{2 * day, "2 days", "2 日間", "2일"},
		{3 * day, "3 days", "3 日間", "3일"},
		{49 * time.Hour, "49 hours", "49 時間", "49시간"},
		{31*time.Hour + 5*time.Minute + 31*time.Second, "31 hours 5 minutes 31 seconds", "31 時間 5 分 31 秒", "31시간 5분 31초"},
	} {
		for tag, want := range map[string]string{English: tt.en, Japanese: tt.ja, Korean: tt.ko} {
			if got := c.For(tag).Duration(tt.d); got != want {
				t.Errorf("%s in %s is %q, want %q", tt.d, tag, got, want)
			}
		}
	}
}

func TestTexts_SizesAndCounts(t *testing.T) {
	t.Parallel()
	english := loaded(t).languages[English]
	for n, want := range map[int]string{0: "0 bytes", 1: "1 byte", 1000: "1000 bytes", 1024: "1 KB", 1025: "1025 bytes", 4096: "4 KB"} {
		if got := english.size(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
	once := altered(t, contract.Standard, func(c *contract.Contract) { c.Schedule.Waits = c.Schedule.Waits[:1] })
	if got := english.value(paramAttempts, once); got != "1 attempt" {
		t.Errorf("one attempt is %q", got)
	}
}

// What a contract's author wrote is put in as it is and never read as a text.
func FuzzOperator(f *testing.F) {
	c, err := Load()
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"Acme", "{operator}", "{timeout}", "}{", "<b>", "\x00\xff", "チーム"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, operator string) {
		if operator == "" {
			return
		}
		agreed := &contract.Contract{Operator: operator}
		for _, tag := range Languages() {
			plain := c.For(tag).Banner(&contract.Contract{Operator: "\x01"}, "staff")
			got := c.For(tag).Banner(agreed, "staff")
			if want := strings.Replace(plain, "\x01", operator, 1); got != want {
				t.Errorf("%s: got %q, want %q", tag, got, want)
			}
		}
	})
}

// bareContract promises as little as a contract may.
const bareContract = `
apiVersion: 1
name: bare
url: {schemes: [https]}
delivers: event
body: {fields: [{name: data, from: event.data}]}
webhook_id: event
headers: [{name: id, from: webhook_id}]
signature: {header: sig, form: timestamped-hex, signed: "{t}.{body}", algorithms: [hmac-sha256], key: text, tolerance: 5m, overlap: 24h}
secret: {prefix: whsec_, bytes: 32, min_bytes: 24, max_bytes: 64, from: either}
timeout: 10s
success: ["200-299"]
response: {read: 4096, keep: 0}
schedule: {waits: [0], jitter: 0}
exhausted: {status: failed}
off: {new: hold, waiting: hold, in_flight: hold}
on_resume: {held: backlog}
on_enable: {held: backlog}
test: {type: test, data: "{}", while_off: true, logged: true}
history: {keep: 30d, on_endpoint_delete: keep}
`
