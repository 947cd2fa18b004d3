package demo

import (
	"context"
	"time"
)

// refresh is the time between two tables.
const refresh = 500 * time.Millisecond

// watch shows how the stations stand until ctx ends, and once more then.
func (d *Demo) watch(ctx context.Context) {
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		d.showTable(ctx)
		select {
		case <-ctx.Done():
			d.showTable(ctx)
			return
		case <-tick.C:
		}
	}
}

func (d *Demo) showTable(ctx context.Context) {
	rows := make([]Row, len(d.stations))
	for i, s := range d.stations {
		t := d.ledger.tally(s.name)
		rows[i] = Row{
			Station: s.name, About: s.about, Requests: t.requests, Failures: t.failures,
			Delivered: t.delivered, Waiting: d.waiting(ctx, s.name), Last: t.last,
		}
	}
	d.view.Lock()
	defer d.view.Unlock()
	d.cfg.View.Table(rows)
}

// waiting asks the server how many deliveries of a station wait. The table is
// no place for its errors: Run meets them too.
func (d *Demo) waiting(ctx context.Context, name string) int {
	d.mu.Lock()
	id := d.endpoints[name]
	d.mu.Unlock()
	e, err := d.cfg.API.GetEndpoint(context.WithoutCancel(ctx), id)
	if err != nil || e.Waiting == nil {
		return 0
	}
	return *e.Waiting
}
