package transform

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

func shared(name string) string { return "[[" + strings.Repeat(name+",", 8) + name + "]]" }

func list(n int, item string) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }

// What has no value for an event does not take it, and has() is the way to ask.
func TestFilters_AnErrorDoesNotMatch(t *testing.T) {
	t.Parallel()
	var noted []error
	f, err := New(Config{Note: func(err error) { noted = append(noted, err) }})
	if err != nil {
		t.Fatal(err)
	}
	for _, expr := range []string{
		`data.missing == 1`, `data.missing != 1`, `data.n.deeper == 1`, `data.n + "x" == "1x"`, `data.n / 0 == 1`, `data.n > "a"`,
		`int(data.text) == 1`, `data.list[7] == 1`, `data[data.n] == 1`, `data.n.matches("1")`, `data.n in data.text`,
	} {
		if ok, err := compiled(t, f, expr).Match(opened(f, `{"n":1,"text":"t","list":[1]}`)); ok || !errors.Is(err, ErrEvaluation) {
			t.Errorf("%s: %v, %v", expr, ok, err)
		}
	}
	if ok, err := compiled(t, f, `type != "" && data.n == 1`).Match(opened(f, `no JSON`)); ok || !errors.Is(err, ErrEvaluation) {
		t.Errorf("data that is no JSON: %v, %v", ok, err)
	}
	if len(noted) != 12 || !errors.Is(noted[0], ErrEvaluation) {
		t.Errorf("noted %v", noted)
	}
	if ok, err := compiled(t, f, `!has(data.missing) && type != ""`).Match(opened(f, `{}`)); !ok || err != nil {
		t.Errorf("has(): %v, %v", ok, err)
	}
	if ok, err := compiled(t, f, `type != ""`).Match(opened(f, `no JSON`)); !ok || err != nil {
		t.Errorf("an expression that reads no data: %v, %v", ok, err)
	}
}

// Whatever an expression and the data are, one evaluation is short; what needed
// more counts as fulfilled.
func TestFilters_HostileExpressionsEnd(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":[`, 499) + "1" + strings.Repeat("]}", 499)
	long := strings.Repeat("a", 1<<18)
	doubled := func(op string, levels int) string {
		text := "true"
		for i := levels; i > 0; i-- {
			text = fmt.Sprintf("[v%d%sv%d].exists(v%d,%s)", i-1, op, i-1, i, text)
		}
		return text
	}
	f := filters(t)
	for name, c := range map[string]struct {
		expr, data string
		budget     bool
	}{
		"a long list":               {`data.all(x, x == 1)`, list(40_000, "1"), true},
		"loops in loops":            {`data.all(x, data.all(y, x == y))`, list(2000, "1"), true},
		"a list of lists":           {`data.map(x, data.map(y, y)).size() > 0`, list(2000, "1"), true},
		"searching a long list":     {`"b" in data`, list(30_000, `"a"`), true},
		"comparing large data":      {`data == data`, list(30_000, `{"a":[1]}`), true},
		"comparing with a constant": {`data != 1 && data != 2`, list(30_000, `1`), false},
		"comparing often":           {`data.l.all(x, data == data)`, `{"l":` + list(1000, "1") + `}`, true},
		"comparing deep data":       {`data == data`, deep, false},
		"comparing what is shared": {
			shared("data") + `.exists(a,` + shared("a") + `.exists(b,` + shared("b") + `.exists(c,` + shared("c") + `.exists(d,` + shared("d") + `.exists(e,` + shared("e") + `.exists(g,` + shared("g") + `.exists(h,` + shared("h") + `.exists(i,` + shared("i") + `.exists(j,` + shared("j") + `.exists(k,k==k))))))))))`,
			`[1]`, true,
		},
		"searching what is shared": {
			shared("data") + `.exists(a,` + shared("a") + `.exists(b,` + shared("b") + `.exists(c,` + shared("c") + `.exists(d,` + shared("d") + `.exists(e,` + shared("e") + `.exists(g,` + shared("g") + `.exists(h,` + shared("h") + `.exists(i,` + shared("i") + `.exists(j,` + shared("j") + `.exists(k,[k] in [[k]]))))))))))`,
			`[1]`, true,
		},
		"texts that double": {`[data].exists(v0,` + doubled("+", 20) + `)`, `"` + long[:1000] + `"`, true},
		"lists that double": {`[data].exists(v0,` + strings.Replace(doubled("+", 20), "true", "2 in v20", 1) + `)`, `[1]`, true},
		"a text glued":      {`data.l.all(x, data.s + data.s != "")`, `{"l":` + list(10_000, "1") + `,"s":"` + long + `"}`, true},
		"a text converted":  {`data.l.all(x, int(data.s) == 1 || true)`, `{"l":` + list(10_000, "1") + `,"s":"` + strings.Repeat("0", 1<<18) + `"}`, true},

		"a long name":        {`data.l.all(x, data.s in data || data[data.s] == 1 || true)`, `{"l":` + list(1000, "1") + `,"s":"` + long + `"}`, false},
		"a pattern":          {`data.matches("(a?b?){60}c")`, `"` + strings.Repeat(long, 16) + `"`, true},
		"a pattern, often":   {`data.l.all(x, data.s.matches("^(a|a)*b$") == false)`, `{"l":` + list(1000, "1") + `,"s":"` + long[:2000] + `"}`, true},
		"a pattern, short":   {`data.matches("^(a|a)*b$") == false`, `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`, false},
		"many names":         {`data.exists(k, k == "zz")`, `{` + strings.TrimPrefix(strings.Repeat(`,"a":1`, 20_000), ",") + `}`, false},
		"a long text":        {`data.s != "" && data.s == data.s && data.s > "a" && data.s.startsWith("a")`, `{"s":"` + long + `"}`, false},
		"times in a loop":    {`data.all(x, timestamp(x) == timestamp(x) || true)`, list(2000, `"2026-01-31T12:00:00Z"`), false},
		"deep data, in text": {`string(data.a[0].a) == "" || true`, deep, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			filter, err := f.Compile(c.expr)
			if err != nil {
				if !strings.Contains(err.Error(), "too much work") {
					t.Fatal(err)
				}
				return
			}
			e := opened(f, c.data)
			e.data() // decoding is linear in what was accepted
			start := time.Now()
			ok, err := filter.Match(e)
			spent := time.Since(start)
			t.Logf("%v, %v, %d steps, %v", ok, err, e.work, spent)
			if errors.Is(err, ErrBudget) != c.budget || c.budget && (!ok || e.work < maxWork) {
				t.Errorf("%v, %v", ok, err)
			}
			// It takes milliseconds. What is not bounded takes minutes, or never ends.
			if spent > time.Minute {
				t.Errorf("it took %v", spent)
			}
		})
	}
}

// Looking for a name costs one step, so it can't be long.
func TestFilters_LongNamesAreNotFound(t *testing.T) {
	t.Parallel()
	f := filters(t)
	for length, found := range map[int]bool{maxName: true, maxName + 1: false} {
		name := strings.Repeat("k", length)
		ok, err := compiled(t, f, `data[data.k] == 1`).Match(opened(f, `{"k":"`+name+`","`+name+`":1}`))
		if ok != found || (err == nil) != found {
			t.Errorf("%d bytes: %v, %v", length, ok, err)
		}
	}
}

// All filters of an event share a budget; what is left of them is fulfilled, so
// that nothing is lost.
func TestFilters_OneEventsBudget(t *testing.T) {
	t.Parallel()
	budget := 0
	f, err := New(Config{Note: func(err error) {
		if errors.Is(err, ErrBudget) {
			budget++
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	e := &webhook.Event{Data: []byte(list(1000, "1"))}
	data := func() any { return f.Decode(e.Data) }
	first, matched := f.Open(e, data), 0
	for i := range 100 {
		fulfils, err := f.Filter(fmt.Sprintf(`data.exists(x, x == %d)`, 2+i))
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := fulfils(first); ok != errors.Is(err, ErrBudget) {
			t.Fatalf("%d: %v, %v", i, ok, err)
		} else if ok {
			matched++
		}
		if i < 99 {
			continue
		}
		if ok, err := fulfils(f.Open(e, data)); ok || err != nil {
			t.Fatalf("the next event has no budget of its own: %v, %v", ok, err)
		}
	}
	if matched == 0 || matched == 100 || budget != matched {
		t.Fatalf("%d of 100 were taken, %d were noted", matched, budget)
	}
}

func TestFilters_AsFunctions(t *testing.T) {
	t.Parallel()
	f := filters(t)
	if fulfils, err := f.Filter(`data.n ==`); err == nil || fulfils != nil {
		t.Fatalf("%v", err)
	}
	decoded := 0
	opened := f.Open(&webhook.Event{Type: "a"}, func() any { decoded++; return f.Decode([]byte(`{"n":1}`)) })
	for _, c := range []struct {
		expr    string
		want    bool
		decoded int
	}{{`type == "a"`, true, 0}, {`data.n == 1`, true, 1}, {`data.n == 2`, false, 2}} {
		fulfils, err := f.Filter(c.expr)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := fulfils(opened); got != c.want || err != nil || decoded != c.decoded {
			t.Errorf("%s: %v, %v, data was asked for %d times", c.expr, got, err, decoded)
		}
	}
	fulfils, _ := f.Filter(`true`)
	if ok, err := fulfils("something else"); ok || !errors.Is(err, ErrEvaluation) {
		t.Fatalf("%v, %v", ok, err)
	}
}

func TestFilters_CompiledOnceByText(t *testing.T) {
	t.Parallel()
	f, err := New(Config{Kept: 4})
	if err != nil {
		t.Fatal(err)
	}
	first := compiled(t, f, `data.n == 1`)
	if compiled(t, f, `data.n == 1`) != first {
		t.Fatal("the same text was compiled twice")
	}
	for i := range 100 {
		compiled(t, f, fmt.Sprintf(`data.n == %d`, i))
	}
	if len(f.compiled) > 4 {
		t.Fatalf("%d are kept", len(f.compiled))
	}
	if ok, err := first.Match(opened(f, `{"n":1}`)); !ok || err != nil || first.String() != `data.n == 1` {
		t.Fatal("what was put out does not work any more")
	}
}

func FuzzFilter(f *testing.F) {
	f.Add(`type == "order.paid" && data.amount > 100`, `{"amount":150}`)
	f.Add(`data.items.exists(i, i.sku in ["a", "b"]) || has(data.x.y)`, `{"items":[{"sku":"b"}],"x":{"y":null}}`)
	f.Add(`data.all(x, data.map(y, y + x).size() > 1) ? data == data : type.matches("^a*$")`, `[1,2.5,"a",true]`)
	f.Add(`event.created_at.getFullYear() == 2026 && duration("1h") > duration("1m")`, `"\ud800"`)
	all := filters(f)
	f.Fuzz(func(t *testing.T, expr, data string) {
		filter, err := all.Compile(expr)
		if err != nil {
			if p, ok := webhook.AsProblem(err); !ok || p.Code != webhook.CodeInvalidField || p.Fields[0].Allowed == "" {
				t.Fatalf("%q: %v", expr, err)
			}
			return
		}
		e := opened(all, data)
		e.data()
		start := time.Now()
		first, err := filter.Match(e)
		if spent := time.Since(start); spent > time.Minute {
			t.Fatalf("%q took %v", expr, spent)
		}
		if errors.Is(err, ErrBudget) != (first && err != nil) || err != nil && !errors.Is(err, ErrBudget) && !errors.Is(err, ErrEvaluation) {
			t.Fatalf("%q: %v, %v", expr, first, err)
		}
		if again, _ := filter.Match(opened(all, data)); again != first {
			t.Fatalf("%q: %v, then %v", expr, first, again)
		}
	})
}
