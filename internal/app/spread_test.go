package app

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// What failed at one moment is not retried at one moment: of each round, the first
// and the last lie at least 18 % of the wait apart, and no second has a crowd.
func TestFault_B37_WhatFailedTogetherIsRetriedApart(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, v *virtual) {
		const endpoints = 120
		for i := range endpoints {
			path := fmt.Sprintf("/%d", i)
			v.net.on(path, answers(500))
			v.under("petify", path)
		}
		v.publish("a", `1`)
		v.pass(2 * time.Hour)
		waits := promise(t, "petify").Schedule.Waits
		for round := 1; round <= 3; round++ {
			var gaps []time.Duration
			for i := range endpoints {
				hits := v.net.at(fmt.Sprintf("/%d", i))
				gaps = append(gaps, hits[round].at.Sub(hits[round-1].at))
			}
			slices.Sort(gaps)
			wait := waits[round].Std()
			if spread := gaps[len(gaps)-1] - gaps[0]; spread < wait*18/100 {
				t.Errorf("round %d: after a wait of %v all come within %v", round+1, wait, spread)
			}
			most := 0
			for i := range gaps {
				n := 0
				for j := i; j < len(gaps) && gaps[j] < gaps[i]+wait/20; j++ {
					n++
				}
				most = max(most, n)
			}
			if most > endpoints/2 {
				t.Errorf("round %d: %d of %d come within a twentieth of the wait", round+1, most, endpoints)
			}
		}
	})
}
