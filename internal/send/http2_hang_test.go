package send

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// stuckServer answers each stream with the headers of a success before it has
// the request, and ends none.
type stuckServer struct {
	// window is what it lets clients send on a stream.
	window uint32
	// body follows the headers.
	body []byte
	// deaf is closed when it stops reading, at the first request's headers; nil
	// for never.
	deaf chan struct{}
}

func (s stuckServer) serve(c *rawConn) {
	if _, err := io.ReadFull(c.reader, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(c.Conn, c.reader)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: s.window})
	_ = framer.WriteWindowUpdate(0, 1<<24)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = framer.WritePing(true, f.Data)
			}
		case *http2.MetaHeadersFrame:
			var block bytes.Buffer
			_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: f.StreamID, BlockFragment: block.Bytes(), EndHeaders: true})
			if len(s.body) > 0 {
				_ = framer.WriteData(f.StreamID, false, s.body)
			}
			if s.deaf == nil {
				continue
			}
			close(s.deaf)
			// Frames that ask for no answer keep the connection from being probed.
			for framer.WriteWindowUpdate(0, 1) == nil {
				time.Sleep(time.Second)
			}
			return
		}
	}
}

// A success whose body does not end, while the request waits for the server's
// leave to go on or for the server to read, ends with the attempt's time. Over
// HTTP/2 net/http looks at the time neither here nor there.
func TestFault_B34_HTTP2AnswersBeforeTheRequest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		window uint32
		body   string
		deaf   bool
	}{
		"no window":      {},
		"a small window": {window: 1000, body: "x"},
		"nobody reads":   {window: 1 << 24, deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := post(t, "https://r.example/hook")
			r.Body = repeated("0123456789abcdef", 256<<10)
			synctest.Test(t, func(t *testing.T) {
				server := stuckServer{window: test.window, body: []byte(test.body)}
				if test.deaf {
					server.deaf = make(chan struct{})
				}
				s := New(Config{Resolver: answers(public)})
				network := new(pipes)
				overTLSUntil(t, s, network, "h2", server.deaf, server.serve)
				got := s.Send(t.Context(), r)
				if got.StatusCode != 200 || got.Kind != "" {
					t.Errorf("%+v", got)
				}
				if got.Duration > r.Timeout {
					t.Errorf("it took %v", got.Duration)
				}
				s.Close()
				network.wait.Wait()
			})
		})
	}
}
