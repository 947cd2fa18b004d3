// Package telemetry shows what the server measures, in Prometheus' text form.
//
// It reads snapshots when scraped and keeps no series of its own, so that the
// number of series does not depend on tenants, endpoints or event types. It knows
// nothing of the packages that it measures: app fills in a Snapshot.
package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Snapshot is what a scrape shows of one node.
type Snapshot struct {
	// Lanes counts endpoints, BusyLanes those with something in memory.
	Lanes, BusyLanes int
	// InFlight counts requests under way and outcomes that are not written yet;
	// Slots is their limit.
	InFlight, Slots int
	// Ready counts due deliveries in memory that wait for their turn.
	Ready int
	// OldestDue is how long the oldest due delivery of an active endpoint waits.
	OldestDue time.Duration
	// PayloadBytes is payload held in memory.
	PayloadBytes int
	// WALPages is the size of the database's write-ahead log, in pages (N25).
	WALPages int64
	// Commits counts transactions since the start, CommittedOps what they took.
	Commits, CommittedOps int64
}

// Handler serves the metrics; look is called once per scrape.
func Handler(look func() Snapshot) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newCollector(look),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// series is one metric without labels.
type series struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Snapshot) float64
}

type collector struct {
	look   func() Snapshot
	series []series
}

func newCollector(look func() Snapshot) *collector {
	gauge := func(name, help string, value func(*Snapshot) float64) series {
		return series{prometheus.NewDesc("posthorn_"+name, help, nil, nil), prometheus.GaugeValue, value}
	}
	counter := func(name, help string, value func(*Snapshot) float64) series {
		return series{prometheus.NewDesc("posthorn_"+name, help, nil, nil), prometheus.CounterValue, value}
	}
	return &collector{look: look, series: []series{
		gauge("lanes", "Live endpoints.", func(s *Snapshot) float64 { return float64(s.Lanes) }),
		gauge("lanes_busy", "Endpoints with deliveries in memory.", func(s *Snapshot) float64 { return float64(s.BusyLanes) }),
		gauge("deliveries_in_flight", "Requests under way and outcomes not written yet.", func(s *Snapshot) float64 { return float64(s.InFlight) }),
		gauge("deliveries_in_flight_limit", "The most deliveries in flight.", func(s *Snapshot) float64 { return float64(s.Slots) }),
		gauge("deliveries_ready", "Due deliveries in memory that wait for their turn.", func(s *Snapshot) float64 { return float64(s.Ready) }),
		gauge("oldest_due_seconds", "How long the oldest due delivery of an active endpoint has waited.", func(s *Snapshot) float64 { return s.OldestDue.Seconds() }),
		gauge("payload_bytes", "Payload held in memory.", func(s *Snapshot) float64 { return float64(s.PayloadBytes) }),
		gauge("sqlite_wal_pages", "Pages in the database's write-ahead log.", func(s *Snapshot) float64 { return float64(s.WALPages) }),
		counter("store_commits_total", "Transactions committed.", func(s *Snapshot) float64 { return float64(s.Commits) }),
		counter("store_operations_total", "Operations that were committed together.", func(s *Snapshot) float64 { return float64(s.CommittedOps) }),
	}}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range c.series {
		ch <- s.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	snapshot := c.look()
	for _, s := range c.series {
		ch <- prometheus.MustNewConstMetric(s.desc, s.kind, s.value(&snapshot))
	}
}
