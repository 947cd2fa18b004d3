package app

import (
	"testing"
	"time"
)

// Every change of an endpoint's state works or says why not, and what came in each
// state is sent, or listed as skipped and can be sent again; nothing is missing.
func TestFault_B62_EveryStateCanBeLeftAndNothingIsMissing(t *testing.T) {
	for name, held := range map[string]bool{"standard": true, "signals": true, "elido": true, "petify": false} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, v *virtual) {
				e, _ := v.under(name, "/")
				path := "/v1/endpoints/" + e
				sent, off := 0, 0
				five := func(on bool) {
					for range 5 {
						v.publish("a", `{}`)
						sent++
						if !on {
							off++
						}
					}
					v.pass(time.Minute)
				}
				five(true)
				v.do(200, "POST", path+"/pause", "")
				five(false)
				v.do(200, "POST", path+"/pause", "")
				v.do(200, "POST", path+"/disable", `{"reason":"x"}`)
				five(false)
				v.do(409, "POST", path+"/pause", "")
				v.do(409, "POST", path+"/resume", "")
				v.do(200, "POST", path+"/enable", "")
				five(true)
				v.do(200, "PATCH", path, `{"active":false}`)
				five(false)
				v.do(200, "POST", path+"/rotate-secret", "")
				v.do(200, "POST", path+"/resume", "")
				v.do(200, "POST", path+"/resume", "")
				five(true)
				v.pass(time.Minute)
				n := v.counts("endpoint=" + e)
				if held && n["delivered"] != sent || !held && (n["delivered"] != sent-off || n["skipped"] != off) {
					t.Errorf("of %d, %d of them while off: %v", sent, off, n)
				}
				if !held { // skipped ones can be sent again
					for _, row := range v.rows("endpoint=" + e + "&status=skipped") {
						v.do(202, "POST", "/v1/deliveries/"+row.text("id")+"/resend", "")
					}
					v.pass(time.Minute)
				}
				if n := v.counts("endpoint=" + e); n["delivered"] != sent {
					t.Errorf("in the end: %v", n)
				}
				if got := len(v.net.at("/")); got != sent {
					t.Errorf("%d requests for %d events", got, sent)
				}
				v.do(204, "DELETE", path, "")
				v.publish("a", `{}`)
				v.pass(time.Minute)
				if got := len(v.net.at("/")); got != sent {
					t.Errorf("%d requests after the deletion", got-sent)
				}
				audit := v.do(200, "GET", "/v1/audit?target="+e, "").list("data")
				if len(audit) != 8 {
					t.Errorf("%d entries in the audit trail: %v", len(audit), audit)
				}
			})
		})
	}
}
