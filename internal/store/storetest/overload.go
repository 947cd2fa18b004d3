package storetest

import (
	"errors"
	"strings"
	"time"

	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

func overloadCases() []testCase {
	return []testCase{
		{name: "TestEngine_N5_QueueOverItsRowsRefuses", opts: Options{QueueRows: 10}, run: overloadRefuses},
		{name: "TestEngine_N5_QueueOverItsBytesRefuses", opts: Options{QueueBytes: 40_000}, run: overloadRefuses},
	}
}

// Many publish while nothing is committed. Those over the limit are refused at
// once and leave nothing behind, those within wait and are accepted, and outcomes
// are never refused.
func overloadRefuses(f *fixture) {
	e := f.endpoint("a")
	sent := f.sendMany(e, 4)
	p := f.event(e)
	setData(&p, strings.Repeat("x", 8000))

	const publishers = 64
	release := f.db.Stall(f.T, f.Store)
	answers := make(chan error, publishers)
	for range publishers {
		go func() {
			results, err := f.Accept(f.ctx, []store.AcceptParams{p})
			if err == nil {
				err = results[0].Err
			}
			answers <- err
		}()
	}
	// While the store is held back only refusals come. Any ten rows or 40,000
	// bytes, and what is under way beside, hold far fewer than half of 64.
	deadline := time.After(30 * time.Second)
	for range publishers / 2 {
		select {
		case err := <-answers:
			f.fails(err, store.ErrOverloaded)
		case <-deadline:
			f.Fatal("more waits than the queue's bound")
		}
	}
	var recorded []<-chan recording
	for _, w := range sent {
		recorded = append(recorded, f.begin(f.success(w)))
	}
	release()

	accepted := 0
	for range publishers - publishers/2 {
		switch err := <-answers; {
		case err == nil:
			accepted++
		case !errors.Is(err, store.ErrOverloaded):
			f.Fatalf("error is %v", err)
		}
	}
	for _, answered := range recorded {
		r := <-answered
		f.ok(r.err)
		if !r.result.Applied {
			f.Fatal("an outcome was not applied")
		}
	}
	if accepted == 0 {
		f.Fatal("none was accepted, not even within the limit")
	}
	if n := f.countEvents(webhook.DefaultTenant); n != accepted+len(sent) {
		f.Fatalf("%d events are stored, %d were accepted", n, accepted+len(sent))
	}
	if n := len(f.due(e, f.now)); n != accepted {
		f.Fatalf("%d deliveries wait, %d were accepted", n, accepted)
	}
	f.send(e) // and it goes on
}
