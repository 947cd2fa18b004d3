package receiver_test

import (
	"slices"
	"testing"

	"github.com/posthorn/posthorn/internal/cli/receiver"
)

func TestCheckGivable(t *testing.T) {
	t.Parallel()
	for list, ok := range map[string]bool{"200,302,599,timeout": true, "101": false, "dns": false, "tls": false, "refused": false, "unsafe": false} {
		answers, err := receiver.ParseAnswers(list)
		if err != nil {
			t.Fatal(err)
		}
		if err := receiver.CheckGivable(answers); (err == nil) != ok {
			t.Errorf("%s: %v", list, err)
		}
	}
}

func TestSequence_TheLastRepeats(t *testing.T) {
	t.Parallel()
	answers, err := receiver.ParseAnswers("500,429,200")
	if err != nil {
		t.Fatal(err)
	}
	s := receiver.NewSequence(answers)
	var got []int
	for range 5 {
		got = append(got, s.Next().Status)
	}
	if !slices.Equal(got, []int{500, 429, 200, 200, 200}) {
		t.Errorf("got %v", got)
	}
	if a := receiver.NewSequence(nil).Next(); a.Status != 200 {
		t.Errorf("without a list: %v", a)
	}
}
