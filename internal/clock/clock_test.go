package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

// A step of the wall clock moves new stamps and nothing that waits.
func TestEngine_N20_AStepMovesStampsOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := Start()
		begun := c.Now()
		time.Sleep(time.Minute)
		c.Step(-time.Hour)
		if waited := c.Now().Sub(begun); waited != time.Minute {
			t.Errorf("due times moved by %s", waited)
		}
		if off := c.Offset(); off != -time.Hour {
			t.Errorf("the offset is %s", off)
		}
		in := c.Wall().Add(10 * time.Minute)
		if wait := c.OnDueClock(in).Sub(c.Now()); wait != 10*time.Minute {
			t.Errorf("ten minutes ahead of the wall are %s ahead of what is due", wait)
		}
	})
}
