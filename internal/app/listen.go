package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"syscall"

	"github.com/posthorn/posthorn/internal/api"
	"github.com/posthorn/posthorn/internal/config"
	"github.com/posthorn/posthorn/internal/telemetry"
)

// listen opens the listeners before the first webhook goes out, so that the
// guard knows the addresses it never calls.
func (a *App) listen(ctx context.Context) (err error) {
	if a.listener, err = listenAt(ctx, a.cfg.Listen); err != nil {
		return err
	}
	if a.cfg.MetricsListen != "" {
		a.metrics, err = listenAt(ctx, a.cfg.MetricsListen)
	}
	return err
}

func listenAt(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, config.NewFault(err, "The address %s is in use by another program. Stop that one, or give another --listen.", address)
	case errors.Is(err, syscall.EACCES):
		return nil, config.NewFault(err, "The address %s may not be used by this user. Take a port above 1023, or give the right to bind it.", address)
	default:
		return nil, config.NewFault(err, "The address %s can't be listened at.", address)
	}
}

// serve answers on a listener until Stop.
func (a *App) serve(l net.Listener, h http.Handler) {
	s := api.HTTPServer(h, a.log)
	a.serving.Lock()
	a.servers = append(a.servers, s)
	a.serving.Unlock()
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			a.end(fmt.Errorf("serving at %s: %w", l.Addr(), err))
		}
	}()
}

// metricsHandler serves /metrics and nothing else.
func (a *App) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", telemetry.Handler(a.snapshot))
	return mux
}

func (a *App) snapshot() telemetry.Snapshot {
	lanes, db := a.dispatcher.Stats(), a.db.Stats()
	return telemetry.Snapshot{
		Lanes: lanes.Lanes, BusyLanes: lanes.Busy, InFlight: lanes.InFlight, Slots: lanes.Slots, Ready: lanes.Ready,
		OldestDue: lanes.OldestDue, PayloadBytes: lanes.BytesHeld, WALPages: db.WALPages, Commits: db.Commits, CommittedOps: db.Ops,
	}
}

func userAgent(version string) string {
	if version == "" {
		return "Posthorn"
	}
	return "Posthorn/" + version
}

func randomFloat() float64 { return rand.Float64() }
