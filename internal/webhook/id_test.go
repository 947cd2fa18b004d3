package webhook

import (
	"sort"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func testCodec(t testing.TB) *IDCodec {
	t.Helper()
	c, err := NewIDCodec([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestID_RoundTrip(t *testing.T) {
	t.Parallel()
	c := testCodec(t)
	rapid.Check(t, func(r *rapid.T) {
		pos := rapid.Int64Range(0, maxPosition).Draw(r, "position")
		at := time.UnixMilli(rapid.Int64Range(0, 1<<47).Draw(r, "ms"))
		prefix := rapid.SampledFrom([]string{PrefixEvent, PrefixDelivery, PrefixAttempt}).Draw(r, "prefix")
		id := c.Encode(prefix, at, pos)
		got, err := c.Decode(prefix, id)
		if err != nil || got != pos {
			r.Fatalf("Decode(%q) = %d, %v, want %d", id, got, err, pos)
		}
	})
}

func TestID_SortsByTimeAndHidesPositions(t *testing.T) {
	t.Parallel()
	c := testCodec(t)
	var ids []string
	for i := range 1000 {
		ids = append(ids, c.Encode(PrefixEvent, time.UnixMilli(1_700_000_000_000+int64(i)), int64(i)))
	}
	if !sort.StringsAreSorted(ids) {
		t.Error("IDs of later milliseconds must sort later")
	}
	a := c.Encode(PrefixEvent, time.UnixMilli(1_700_000_000_000), 1)
	b := c.Encode(PrefixEvent, time.UnixMilli(1_700_000_000_000), 2)
	if a[len(a)-9:len(a)-1] == b[len(b)-9:len(b)-1] {
		t.Errorf("neighbouring positions show: %s %s", a, b)
	}
}

func TestID_RefusesForeign(t *testing.T) {
	t.Parallel()
	c := testCodec(t)
	id := c.Encode(PrefixDelivery, time.UnixMilli(1_700_000_000_000), 42)
	if _, err := c.Decode(PrefixEvent, strings.Replace(id, "dlv", "evt", 1)); err == nil {
		t.Error("a delivery's ID passed as an event's")
	}
	for i := 4; i < len(id); i++ {
		for _, r := range idAlphabet {
			changed := id[:i] + string(r) + id[i+1:]
			if changed == id {
				continue
			}
			if pos, err := c.Decode(PrefixDelivery, changed); err == nil {
				t.Fatalf("%s passed as position %d", changed, pos)
			}
		}
	}
	for _, bad := range []string{"", "dlv_", "dlv_" + strings.Repeat("z", 26), strings.ToUpper(id), id + "0", id[:len(id)-1]} {
		if _, err := c.Decode(PrefixDelivery, bad); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
	other, err := NewIDCodec([]byte("another key, of thirty-two bytes"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Decode(PrefixDelivery, id); err == nil {
		t.Error("another installation's ID passed")
	}
}

func BenchmarkIDEncode(b *testing.B) {
	c := testCodec(b)
	at := time.UnixMilli(1_700_000_000_000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Encode(PrefixDelivery, at, int64(i))
	}
}
