package demo

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The shapes that a link shortener's customers know: every member, in its order.
func TestEvents_HaveTheShapes(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		typeClick: "link_id short_url destination_url click_id ip_prefix country city_geoname_id user_agent_family device_type os_family " +
			"referrer utm_source utm_medium utm_campaign utm_term utm_content",
		typeConversion: "click_id link_id conversion_id value currency event_name product_id metadata order_id is_new_customer " +
			"attribution_window_minutes forwarded_to",
		typeLinkCreated: "link id slug short_url destination_url domain tags created_at created_by",
	}
	g := &generator{random: rand.New(rand.NewPCG(1, 2))}
	member := regexp.MustCompile(`"([a-z_]+)":`)
	seen := map[string]int{}
	for range 10 {
		eventType, data, err := g.next(time.Unix(1767225600, 0))
		if err != nil || !json.Valid(data) {
			t.Fatalf("%s: %v, %s", eventType, err, data)
		}
		var names []string
		for _, m := range member.FindAllSubmatch(data, -1) {
			names = append(names, string(m[1]))
		}
		if got := strings.Join(names, " "); got != want[eventType] {
			t.Errorf("%s has %s, want %s", eventType, got, want[eventType])
		}
		seen[eventType]++
	}
	if seen[typeClick] != 6 || seen[typeConversion] != 2 || seen[typeLinkCreated] != 2 {
		t.Errorf("got %v", seen)
	}
}
