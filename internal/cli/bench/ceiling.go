package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/posthorn/posthorn/signature"
)

// measureCeiling measures signed POSTs of the same size from a net/http client
// straight to the same receiver, as many at a time: what a webhook server of
// no cost at all would reach on this machine. It returns requests a second.
func (r *Receiver) measureCeiling(ctx context.Context) (float64, error) {
	p, err := newPlain(r)
	if err != nil {
		return 0, err
	}
	defer p.http.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	var next atomic.Int64
	start := r.cfg.Now()
	for range r.cfg.Publishers {
		group.Go(func() {
			for next.Add(1) <= int64(r.cfg.Plain) && ctx.Err() == nil {
				if err := p.post(ctx); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	return perSecond(r.cfg.Plain, r.cfg.Now().Sub(start)), context.Cause(ctx)
}

// plain is the client of that measurement.
type plain struct {
	receiver *Receiver
	http     *http.Client
	scheme   signature.Scheme
	key      signature.Key
	url      string
	body     []byte
}

func newPlain(r *Receiver) (*plain, error) {
	s, err := scheme()
	if err != nil {
		return nil, err
	}
	secret, err := signature.GenerateSecret(strings.NewReader(strings.Repeat("bench", 10)), s.SecretPrefix, 32)
	if err != nil {
		return nil, err
	}
	key, err := s.ParseKey(secret)
	if err != nil {
		return nil, err
	}
	return &plain{
		receiver: r, scheme: s, key: key, url: "http://" + r.Addr() + plainPath, body: []byte(eventJSON(r.cfg.Size)),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: r.cfg.Publishers}},
	}, nil
}

func (p *plain) post(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(p.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	msg := signature.Message{ID: "evt_plain", Timestamp: p.receiver.cfg.Now().Unix(), Body: p.body}
	if err := p.scheme.SetHeaders(req.Header, msg, p.key); err != nil {
		return err
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if closing := resp.Body.Close(); err == nil {
		err = closing
	}
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the receiver answered %d", resp.StatusCode)
	}
	return err
}
