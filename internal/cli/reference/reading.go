package main

import (
	"fmt"

	"github.com/posthorn/posthorn/contract"
)

// reading says how a receiver reads a run's events; nothing where a delivery is
// one event.
func (p page) reading() []string {
	if p.c.Delivers != contract.DeliversRun {
		return nil
	}
	ask := fmt.Sprintf("`GET` the address in %s with the header `Authorization: Bearer` and the value of %s. No other key is needed.",
		p.member(contract.FromPageURL, "the notice"), p.member(contract.FromPageToken, "the page token"))
	pages := "`?limit=` says how many events a page may have, 50 by default and 250 at most; a page of large events has fewer. " +
		"`?cursor=` goes on behind a page: it takes that page's `next`, which is `null` on the last one."
	form := fmt.Sprintf("```json\n"+`{"data":[{"eventId":%q,"type":"order.paid","createdAt":%s,"data":%s}],"next":null}`+"\n```",
		exampleEvent, exampleValue(contract.FromEventCreatedAt, ""), exampleData)
	return []string{
		ask, pages, "The answer is `200` with the events in the order in which they were added:", form,
		"`eventId` is the same in every reading and in every redelivery, and `data` is byte for byte as it was posted.",
		"Refusals are a JSON object whose member `code` says why:",
		table([][]string{
			{"status", "code", "meaning"},
			{"401", "`page_token_invalid`", "The token is not one of this run, or its time is over. A redelivery brings a new one."},
			{"410", "`run_gone`", "The events were deleted. There is nothing to retry."},
		}),
	}
}

// member names the body's member that a value stands in.
func (p page) member(from contract.Source, without string) string {
	for _, f := range p.c.Body.Fields {
		if f.From == from {
			return "`" + f.Name + "`"
		}
	}
	return without
}
