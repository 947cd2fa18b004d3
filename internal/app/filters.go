package app

import (
	"context"
	"fmt"
	"time"

	"github.com/posthorn/posthorn/internal/api"
	"github.com/posthorn/posthorn/internal/dispatch"
	"github.com/posthorn/posthorn/internal/publish"
	"github.com/posthorn/posthorn/internal/store"
	"github.com/posthorn/posthorn/internal/webhook"
)

type testResult = api.TestResult

// waiting is a test on its way.
type waiting struct {
	id    string
	ended <-chan dispatch.Ended
	stop  func()
}

// filters checks and tries filters for the API, as publishing matches by them. It
// implements api.Filters.
type filters struct {
	registry *publish.Registry
	events   store.Events
}

const (
	// filterSpan bounds a dry run in time, filterSample the IDs that it names,
	// filterPage the events that it reads at once.
	filterSpan   = 2 * time.Second
	filterSample = 10
	filterPage   = 250
)

// Compile implements api.Filters.
func (f filters) Compile(expr string) error { return f.registry.CheckFilter(expr) }

// Try implements api.Filters.
func (f filters) Try(ctx context.Context, tenant, expr string, limit int) (trial api.FilterTrial, err error) {
	ctx, cancel := context.WithTimeout(ctx, filterSpan)
	defer cancel()
	page := store.Page{Limit: min(limit, filterPage)}
	for trial.Examined < limit && ctx.Err() == nil {
		listed, err := f.events.ListEvents(ctx, tenant, store.EventFilter{}, page)
		if err != nil {
			return trial, unlessLate(ctx, err)
		}
		for _, listed := range listed.Items {
			if trial.Examined == limit || ctx.Err() != nil {
				return trial, nil
			}
			e, err := f.events.GetEvent(ctx, tenant, listed.ID)
			if err != nil {
				return trial, unlessLate(ctx, err)
			}
			if e.Erased {
				continue
			}
			if err := f.tryOne(&trial, expr, e); err != nil {
				return trial, err
			}
		}
		if page.After = listed.Next; page.After == 0 {
			break
		}
	}
	return trial, nil
}

func (f filters) tryOne(trial *api.FilterTrial, expr string, e *webhook.Event) error {
	tried, err := f.registry.TryFilter(expr, []*webhook.Event{e})
	if err != nil {
		return err
	}
	trial.Examined++
	switch {
	case tried[0].Why == publish.WhyNoValue:
		trial.Errors++
	case tried[0].Matched:
		trial.Matched++
		if len(trial.Sample) < filterSample {
			trial.Sample = append(trial.Sample, e.ID)
		}
	}
	return nil
}

// unlessLate passes an error on unless the time was over: a dry run then shows
// what it has.
func unlessLate(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // because the time of a dry run is bounded on purpose
	}
	return fmt.Errorf("trying a filter: %w", err)
}
