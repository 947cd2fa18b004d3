package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/posthorn/posthorn/client"
)

// What one NDJSON request holds at most; the server takes 1,000 lines and 16 MiB.
const (
	batchLines = 500
	batchBytes = 8 << 20
	lineBytes  = 6 << 20
)

// sendLines sends a file's lines in batches, each with send, and stops at the
// first request that is refused as a whole; file "-" is standard input. Of the
// accepted ones repeated, if given, says at the end how many were there before.
func sendLines(ctx context.Context, p *Process, file string, asJSON bool, send func(context.Context, []byte) ([]client.LineResult, error), repeated func() int) error {
	in := p.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		in = f
	} else {
		tellReading(p)
	}
	s := &fileSender{p: p, json: asJSON, send: send}
	scan := bufio.NewScanner(in)
	scan.Buffer(make([]byte, 64<<10), lineBytes)
	for scan.Scan() {
		if err := s.add(ctx, scan.Bytes()); err != nil {
			return err
		}
	}
	if errors.Is(scan.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d is over %d MiB", s.read+1, lineBytes>>20)
	}
	if scan.Err() != nil {
		return scan.Err()
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	fresh := ""
	if repeated != nil {
		fresh = fmt.Sprintf(" (%d new)", s.accepted-repeated())
	}
	p.warnf("%s accepted%s, %d refused", count(s.accepted, "event", "events"), fresh, s.refused)
	if s.refused > 0 {
		return exitError(exitFailed)
	}
	return nil
}

// fileSender batches the lines of a file.
type fileSender struct {
	p     *Process
	json  bool
	send  func(context.Context, []byte) ([]client.LineResult, error)
	batch bytes.Buffer
	// numbers are the file's line numbers of the batch: empty lines are left out.
	numbers           []int
	read              int
	accepted, refused int
}

func (s *fileSender) add(ctx context.Context, line []byte) error {
	s.read++
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return nil
	}
	if len(s.numbers) == batchLines || s.batch.Len()+len(line) > batchBytes {
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
	s.batch.Write(line)
	s.batch.WriteByte('\n')
	s.numbers = append(s.numbers, s.read)
	return nil
}

func (s *fileSender) flush(ctx context.Context) error {
	if len(s.numbers) == 0 {
		return nil
	}
	results, err := s.send(ctx, s.batch.Bytes())
	if err != nil {
		return err
	}
	for i, r := range results {
		if i < len(s.numbers) {
			r.Line = s.numbers[i]
		}
		if err := s.result(r); err != nil {
			return err
		}
	}
	s.batch.Reset()
	s.numbers = s.numbers[:0]
	return nil
}

func (s *fileSender) result(r client.LineResult) error {
	if r.Accepted() {
		s.accepted++
	} else {
		s.refused++
	}
	switch {
	case s.json:
		return s.p.printJSON(r)
	case r.Accepted():
		s.p.printf("%s\n", clean(r.ID))
	default:
		s.p.warnf("line %d: %s", r.Line, clean(r.Err().Error()))
	}
	return nil
}
