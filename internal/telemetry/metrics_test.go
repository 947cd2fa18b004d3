package telemetry

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestHandler_ShowsTheSnapshot(t *testing.T) {
	t.Parallel()
	h := Handler(func() Snapshot {
		return Snapshot{Lanes: 3, InFlight: 2, OldestDue: 1500 * time.Millisecond, WALPages: 77, Commits: 5}
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		"posthorn_lanes 3\n", "posthorn_deliveries_in_flight 2\n", "posthorn_oldest_due_seconds 1.5\n", "posthorn_sqlite_wal_pages 77\n",
		"posthorn_store_commits_total 5\n", "# TYPE posthorn_store_commits_total counter\n", "go_goroutines ",
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
}
