package contract

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// scenario is a round that is played to a contract.
type scenario struct {
	title   string
	terms   Terms
	health  Standing
	answers []Simulated
}

// scenarios are what a contract's timelines show. No round is as long as twenty
// answers.
func scenarios(c *Contract) []scenario {
	const many = 20
	code := func(status int, retryAfter string) Simulated {
		s := c.status(status, retryAfter)
		if s.Text = fmt.Sprint(status); retryAfter != "" {
			s.Text += ":retry-after=" + retryAfter
		}
		return s
	}
	repeat := func(s Simulated) []Simulated {
		all := make([]Simulated, many)
		for i := range all {
			all[i] = s
		}
		return all
	}
	timeout := Simulated{Answer: Answer{Kind: KindTimeout}, Text: "timeout", Takes: c.Timeout.Std()}
	unsafe := Simulated{Answer: Answer{Kind: KindUnsafeURL}, Text: "unsafe"}
	event, healthy := Terms{Trigger: TriggerEvent}, Standing{On: true}
	asked := []Simulated{
		code(429, "120"), code(429, "2"), code(503, "7200"), code(500, "90000"), code(404, "10800"), code(429, "Tue, 21 Nov 2023 00:00:00 GMT"), code(200, ""),
	}
	all := []scenario{
		{"every answer is a failure", event, healthy, repeat(code(500, ""))},
		{"failures that ask for a time with Retry-After", event, healthy, asked},
		{"no answer in time", event, healthy, repeat(timeout)},
		{"410", event, healthy, repeat(code(410, ""))},
		{"a blocked URL", event, healthy, repeat(unsafe)},
		{"a redirect, a refusal, a success", event, healthy, []Simulated{code(302, ""), code(401, ""), code(204, ""), code(500, "")}},
		{"a test", Terms{Trigger: TriggerTest}, healthy, repeat(code(410, ""))},
	}
	if len(c.Resend.From) > 0 {
		all = append(all, scenario{"a resend", c.ResendTerms(event), healthy, repeat(code(500, ""))})
	}
	marked := Standing{On: true, FailuresInRow: c.Degrade.After, DegradedUntil: time.Unix(simulationStart, 0).Add(c.Degrade.For.Std())}
	if c.Degrade.After > 0 {
		all = append(all, scenario{"made while the endpoint is degraded", Terms{Trigger: TriggerEvent, Degraded: true}, marked, repeat(code(500, ""))})
	}
	if c.Pause.After > 0 {
		marked.FailuresInRow = c.Pause.After - 2
		all = append(all, scenario{fmt.Sprintf("%d failures in a row came before", c.Pause.After-2), event, marked, repeat(code(500, ""))})
	}
	if long := c.Disable.NoSuccessFor.Std(); long > 0 {
		first := time.Unix(simulationStart, 0).Add(time.Hour - long)
		all = append(all, scenario{"the last success is long ago, an hour short of disabling", event, Standing{On: true, FirstFailureAt: first}, repeat(code(500, ""))})
	}
	return all
}

// timelines plays the scenarios without jitter.
func timelines(c *Contract) string {
	var b strings.Builder
	fmt.Fprintf(&b, "What the contract %s makes of answers, without jitter.\nThe tests of package contract write and compare this file.\n", c.Name)
	for _, s := range scenarios(c) {
		fmt.Fprintf(&b, "\n%s:\n", s.title)
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "try\tat\tanswer\tkind\tstatus\twait\tnext at\tendpoint\tevents")
		for _, step := range c.play(s.terms, s.health, s.answers, nil) {
			_, _ = fmt.Fprintln(w, stepLine(step, s.answers[step.Attempt-1].Takes))
		}
		_ = w.Flush()
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func stepLine(s Step, took time.Duration) string {
	wait, next := "-", "-"
	if !s.Ended {
		wait, next = (s.NextAt - s.At - took).String(), s.NextAt.String()
	}
	kind, endpoint := string(s.FailureKind), "active"
	if kind == "" {
		kind = "-"
	}
	switch {
	case s.EndpointOff != "":
		endpoint = string(s.EndpointOff)
	case s.Degraded:
		endpoint = "degraded"
	}
	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", s.Attempt, s.At, s.Answer, kind, s.Status, wait, next, endpoint, strings.Join(s.Events, " "))
}

func goldenTimelines(t *testing.T, name string) {
	t.Helper()
	t.Parallel()
	path := filepath.Join("testdata", "timelines", name+".txt")
	got := timelines(builtin(t, name))
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; read it, and if all of it is as promised: go test ./contract -run Timelines -update\n%s", path, got)
	}
}

func TestContract_S2_S4_S9_Timelines(t *testing.T) { goldenTimelines(t, "signals") }
func TestContract_E6_E7_E8_Timelines(t *testing.T) { goldenTimelines(t, "elido") }
func TestContract_P1_P2_P7_Timelines(t *testing.T) { goldenTimelines(t, "petify") }
func TestContract_Standard_Timelines(t *testing.T) { goldenTimelines(t, Standard) }
