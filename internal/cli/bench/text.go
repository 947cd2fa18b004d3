package bench

import (
	"fmt"
	"strings"
)

// Text is the result for people.
func (r Result) Text() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-22s"+format+"\n", append([]any{name}, args...)...)
	}
	load := fmt.Sprintf("%d events of %d bytes, %d publishers, %d a request, to %d endpoints", r.Events, r.Size, r.Publishers, r.Batch, r.Fanout)
	if r.Rate > 0 {
		load += fmt.Sprintf(", %d a second", r.Rate)
	}
	row("load", "%s", load)
	row("delivered", "%.0f a second (%d in %.2f s)", r.DeliveredPerSecond, r.Delivered, r.Seconds)
	row("accepted", "%.0f a second (%d; %d refused, %d times overloaded)", r.AcceptedPerSecond, r.Accepted, r.Refused, r.Overloads)
	row("end to end", "p50 %.2f ms, p90 %.2f, p99 %.2f, max %.2f", r.Latency.P50, r.Latency.P90, r.Latency.P99, r.Latency.Max)
	row("lost, doubled", "%d, %d (%d different IDs)", r.Lost, r.Duplicates, r.UniqueIDs)
	row("signatures checked", "%d valid, %d bad", r.Verified, r.BadSignatures)
	row("plain HTTP", "%.0f a second from client to receiver; the server reaches %.2f of it", r.CeilingPerSecond, r.OfCeiling)
	row("server's CPU", "%s", known(r.CPUPerDelivery, "%.0f µs a delivery"))
	row("server's memory", "%s", known(r.PeakMemory, "%.0f MiB at its peak"))
	return b.String()
}

func known(v *float64, format string) string {
	if v == nil {
		return "not known: it shares a process with the load, or this system has no /proc"
	}
	return fmt.Sprintf(format, *v)
}
