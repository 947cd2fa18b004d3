package simulate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/posthorn/posthorn/internal/simulate"
)

func TestParseAnswers(t *testing.T) {
	t.Parallel()
	got, err := simulate.ParseAnswers("500*3,429:retry-after=120, timeout,302,refused,dns,tls,unsafe*2,200")
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
	again, err := simulate.ParseAnswers(strings.Join(texts, ","))
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
		if _, err := simulate.ParseAnswers(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", list, err, want)
		}
	}
}
