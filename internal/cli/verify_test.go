package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/posthorn/posthorn/internal/clock"
)

// Every vector of package signature through the command: its exit code is the
// vector's verdict. The flags are parsed in the scripts.
func TestVerify_Vectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../signature/testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Provider, Scheme, Name, Secret string
		Headers                        map[string]any
		Body                           []byte `json:"body_base64"`
		Now                            int64  `json:"now_unix"`
		Tolerance                      *int64 `json:"tolerance_s"`
		Valid                          bool
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		c := verifyCommand{Scheme: v.Provider, Variant: v.Scheme, Secrets: []string{v.Secret}, Now: &v.Now}
		if v.Tolerance != nil {
			c.Tolerance = new(span(time.Duration(*v.Tolerance) * time.Second))
		}
		for name, value := range v.Headers {
			values, many := value.([]any)
			if !many {
				values = []any{value}
			}
			for _, one := range values {
				c.Headers = append(c.Headers, name+": "+one.(string))
			}
		}
		var out bytes.Buffer
		err := c.Run(&Process{Stdin: bytes.NewReader(v.Body), Stdout: &out, Clock: clock.Start()})
		var code exitError
		if valid := err == nil; valid != v.Valid || !valid && (!errors.As(err, &code) || code != exitFailed) {
			t.Errorf("%s %s: %v, valid is %t: %s", v.Provider, v.Name, err, v.Valid, out.String())
		}
	}
	if len(vectors) < 20 {
		t.Errorf("only %d vectors", len(vectors))
	}
}
