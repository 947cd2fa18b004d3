package transform

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/posthorn/posthorn/internal/webhook"
)

// filters are those under test.
func filters(t testing.TB) *Filters {
	t.Helper()
	f, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func compiled(t testing.TB, f *Filters, expr string) *Filter {
	t.Helper()
	c, err := f.Compile(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return c
}

// opened is an event with data.
func opened(f *Filters, data string) *Event {
	e := &webhook.Event{
		ID: "order-1", Tenant: "acme", Type: "order.paid", Data: []byte(data), OrderingKey: "k",
		CreatedAt: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC),
	}
	var decoded any
	return NewEvent(e, func() any {
		if decoded == nil {
			decoded = f.Decode(e.Data)
		}
		return decoded
	})
}

func refused(t *testing.T, f *Filters, expr string) webhook.FieldFault {
	t.Helper()
	_, err := f.Compile(expr)
	p, ok := webhook.AsProblem(err)
	if !ok || p.Code != webhook.CodeInvalidField || len(p.Fields) != 1 || p.Fields[0].Pointer != "/filter" {
		t.Fatalf("%.80s: %v", expr, err)
	}
	return p.Fields[0]
}

func TestFilters_WhatTheySee(t *testing.T) {
	t.Parallel()
	f := filters(t)
	const data = `{"amount":150,"rate":1.5,"big":9223372036854775808,"least":-9223372036854775808,"whole":2.0,"exp":1e3,"none":null,"live":true,
		"tags":["a","b"],"user":{"name":"J\u00f6rg","id":7},"twice":1,"twice":2,"lone":"\ud800","previous":{"s":[1,2]},"current":{"s":[1,2.0]}}`
	for expr, want := range map[string]bool{
		`type == "order.paid"`:                                     true,
		`type.startsWith("order.")`:                                true,
		`event.type == type`:                                       true,
		`event.id == "order-1"`:                                    true,
		`event.tenant == "acme"`:                                   true,
		`event.ordering_key == "k"`:                                true,
		`event.created_at.getHours() == 12`:                        true,
		`event.created_at < timestamp("2026-01-31T12:00:00.001Z")`: true,
		`data.amount > 100`:                                        true,
		`data.amount > 100.5 && data.rate < 2`:                     true,
		`data.amount in [1, 150]`:                                  true,
		`data.amount == 150.0`:                                     true,
		`type(data.amount) == int`:                                 true,
		`type(data.whole) == double`:                               true,
		`type(data.exp) == double`:                                 true,
		`type(data.big) == double`:                                 true,
		`data.least == -9223372036854775808`:                       true,
		`data.none == null`:                                        true,
		`data.live`:                                                true,
		`data.live == true`:                                        true,
		`"a" in data.tags`:                                         true,
		`"c" in data.tags`:                                         false,
		`data.tags.exists(t, t == "b")`:                            true,
		`data.tags.all(t, t == "b")`:                               false,
		`size(data.tags) == 2`:                                     true,
		`data.tags.map(t, t + "x") == ["ax", "bx"]`:                true,
		`"name" in data.user`:                                      true,
		`data.user["name"] == "Jörg"`:                              true,
		`data.user.exists(k, k == "id")`:                           true,
		`data.user.name.matches("^J.rg$")`:                         true,
		`has(data.user.mail)`:                                      false,
		`has(data.user.id) && data.user.id != 8`:                   true,
		`data.twice == 2`:                                          true,
		`data.lone == "\uFFFD"`:                                    true,
		`data.previous == data.current`:                            true,
		`data.previous != data.current`:                            false,
		`data.previous == {"s": 1}.s`:                              false,
	} {
		c, err := f.Compile(expr)
		if expr == `data.live` || strings.Contains(expr, `{"s"`) {
			if err == nil {
				t.Errorf("%s was taken", expr)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if got, err := c.Match(opened(f, data)); got != want || err != nil {
			t.Errorf("%s: %v, %v", expr, got, err)
		}
	}
}

func BenchmarkFilter(b *testing.B) {
	f := filters(b)
	item := `{"sku":"a-17","price":12.5,"count":3,"tags":["x","y","z"]}`
	data := `{"amount":150,"currency":"EUR","user":{"id":7,"country":"DE"},"items":[` + strings.Repeat(item+",", 14) + item + `]}`
	e := opened(f, data)
	for _, expr := range []string{
		`type == "order.paid"`,
		`data.amount > 100`,
		`type == "order.paid" && data.amount > 100 && data.user.country in ["DE", "FR"]`,
		`has(data.user.mail) && data.user.mail.endsWith("@example.com")`,
		`data.currency.matches("^E.R$")`,
		`data.items.exists(i, i.sku == "b")`,
	} {
		c := compiled(b, f, expr)
		b.Run(expr, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.work = 0
				if _, err := c.Match(e); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(e.work), "steps/op")
		})
	}
	b.Run(fmt.Sprint("decode ", len(data)), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.Decode([]byte(data))
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	f, _ := New(Config{Kept: 1})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		compiled(b, f, fmt.Sprintf(`type == "order.paid" && data.amount > %d && data.user.country in ["DE", "FR"]`, i))
	}
	const many = 1000
	held := make([]*Filter, many)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range held {
		held[i] = compiled(b, f, fmt.Sprintf(`type == "order.paid" && data.amount > %d && data.user.country in ["DE", "FR"]`, -1-i))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/many, "B-kept/op")
	runtime.KeepAlive(held)
}
