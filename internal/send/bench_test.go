package send

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"
)

func BenchmarkAppendBody(b *testing.B) {
	c := standard(b)
	p := Parts{EventID: "evt_01h455vb4pex5vsknk084sn02q", EventType: "link.created", CreatedAt: createdAt(), Data: repeated(`{"k":"v"},`, 1000)}
	buf := make([]byte, 0, 2048)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendBody(buf[:0], c, p)
	}
}

func BenchmarkHeader(b *testing.B) {
	m := composer(b, standard(b), own("Authorization", "Bearer x"), secretOf(1))
	body := repeated("x", 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Header("evt_01h455vb4pex5vsknk084sn02q", 1, time.Unix(1_800_000_000, 0), body); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSend is one signed attempt against a net/http server on loopback, and
// beside it what a bare net/http client does.
func BenchmarkSend(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	body := repeated("x", 1024)
	b.Run("signed", func(b *testing.B) {
		s := loopbackSender(b)
		m := composer(b, standard(b), nil, secretOf(1))
		r := post(b, server.URL+"/hook")
		r.Body = body
		b.ReportAllocs()
		defer reportCPU(b)()
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				r := r
				var err error
				if r.Header, err = m.Header("evt_1", 1, time.Now(), body); err != nil {
					b.Error(err)
				}
				if got := s.Send(b.Context(), r); !got.Delivered() {
					b.Errorf("%+v", got)
				}
			}
		})
	})
	b.Run("bare", func(b *testing.B) {
		transport := &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
		defer transport.CloseIdleConnections()
		b.ReportAllocs()
		defer reportCPU(b)()
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := bare(b, transport, server.URL, body); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

// reportCPU adds the processor time of both ends, which a busy machine moves less.
func reportCPU(b *testing.B) func() {
	b.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start := used()
	return func() { b.ReportMetric(float64((used()-start).Nanoseconds())/1000/float64(b.N), "cpu-µs/op") }
}

func bare(b *testing.B, transport *http.Transport, url string, body []byte) error {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}
