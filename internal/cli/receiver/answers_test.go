package receiver_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/internal/cli/receiver"
)

func TestParseAnswers(t *testing.T) {
	t.Parallel()
	got, err := receiver.ParseAnswers("500*3,429:retry-after=120, timeout,302,refused,dns,tls,unsafe*2,200")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, a := range got {
		texts = append(texts, a.String())
	}
	want := "500 500 500 429:retry-after=120 timeout 302 refused dns tls unsafe unsafe 200"
	if strings.Join(texts, " ") != want {
		t.Errorf("got %v, want %s", texts, want)
	}
	again, err := receiver.ParseAnswers(strings.Join(texts, ","))
	if err != nil || !slices.Equal(got, again) {
		t.Errorf("what String writes is read as %v, %v", again, err)
	}
}

func TestParseAnswers_Refuses(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"":                      "answer 1",
		"200,":                  "answer 2",
		"99":                    "three digits",
		"600":                   "three digits",
		"0200":                  "three digits",
		"-20":                   "three digits",
		"+200":                  "three digits",
		"ok":                    "neither a status nor",
		"status":                "neither a status nor",
		"200*0":                 "whole number from 1",
		"200*":                  "whole number from 1",
		"200*1000000":           "whole number from 1",
		"200*99999,200*99999":   "over 100000 answers",
		"429:retry-after=":      "retry-after=SECONDS only",
		"429:retry=1":           "retry-after=SECONDS only",
		"timeout:retry-after=1": "takes no option",
	} {
		if _, err := receiver.ParseAnswers(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", list, err, want)
		}
	}
}

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
