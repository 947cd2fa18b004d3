package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/posthorn/posthorn/client"
)

// Summary is what a demo comes to.
type Summary struct {
	// Accepted events, and the deliveries that the server made of them.
	Accepted   int `json:"accepted"`
	Deliveries int `json:"deliveries"`
	// Delivered, Retrying, UnderWay, Failed and Other are the deliveries by what
	// the server says of them; Retrying wait for their next attempt.
	Delivered int `json:"delivered"`
	Retrying  int `json:"retrying"`
	UnderWay  int `json:"under_way"`
	Failed    int `json:"failed"`
	Other     int `json:"other"`
	// Verified and Refused are requests by their signature, valid or not.
	Verified int `json:"signatures_valid"`
	Refused  int `json:"signatures_bad"`
	// Duplicates are requests for what had been answered with a 2xx before.
	Duplicates int `json:"duplicates"`
	// Missing are deliveries that should have arrived and did not.
	Missing int `json:"missing"`
}

// OK tells whether all that should have arrived arrived, and nothing else.
func (s Summary) OK() bool { return s.Accepted > 0 && s.Missing == 0 && s.Refused == 0 }

// sumUp reads the log of deliveries and compares.
func (d *Demo) sumUp(ctx context.Context) (Summary, error) {
	var s Summary
	for delivery, err := range d.cfg.API.AllDeliveries(ctx, client.DeliveryFilter{}, client.PageOptions{Limit: 250}) {
		if err != nil {
			return s, fmt.Errorf("read the log: %w", err)
		}
		s.Deliveries++
		switch delivery.Status {
		case client.StatusDelivered:
			s.Delivered++
		case client.StatusFailed, client.StatusDead:
			s.Failed++
		case client.StatusPending, client.StatusSending:
			if delivery.Reason == "retry" {
				s.Retrying++
			} else {
				s.UnderWay++
			}
		case client.StatusSkipped, client.StatusCanceled, client.StatusRedelivered:
			s.Other++
		default: // a status of a later server
			s.Other++
		}
	}
	d.ledger.fill(&s)
	return s, nil
}

// Text is the summary for people.
func (s Summary) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d events accepted, %d deliveries:\n", s.Accepted, s.Deliveries)
	fmt.Fprintf(&b, "  %d delivered, %d waiting for a retry, %d under way, %d failed\n", s.Delivered, s.Retrying, s.UnderWay, s.Failed)
	fmt.Fprintf(&b, "%d signatures checked: %d valid, %d bad; %d duplicates\n", s.Verified+s.Refused, s.Verified, s.Refused, s.Duplicates)
	fmt.Fprintf(&b, "The endpoints %s never take a delivery, on purpose.\n", strings.Join(refusers(), " and "))
	switch {
	case s.OK():
		b.WriteString("Everything else arrived.\n")
	case s.Accepted == 0:
		b.WriteString("Nothing was accepted.\n")
	default:
		fmt.Fprintf(&b, "%d deliveries that should have arrived did not.\n", s.Missing)
	}
	return b.String()
}
