package sqlite

import (
	"errors"
	"fmt"
)

// laneReaders is the number of connections that only the dispatcher reads by.
const laneReaders = 2

// readerPool is a number of reading connections.
type readerPool struct {
	free chan *conn
	made int
}

func (p *readerPool) open(path, vfs string, n int) error {
	p.free = make(chan *conn, n)
	for range n {
		c, err := openReaderConn(path, vfs)
		if err != nil {
			return fmt.Errorf("opening a reading connection: %w", err)
		}
		p.made++
		p.free <- c
	}
	return nil
}

// close waits for reads under way.
func (p *readerPool) close() error {
	var errs []error
	for range p.made {
		errs = append(errs, (<-p.free).close())
	}
	p.made = 0
	return errors.Join(errs...)
}
