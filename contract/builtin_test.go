package contract

import "testing"

func TestBuiltin_All(t *testing.T) {
	t.Parallel()
	for _, name := range BuiltinNames() {
		text, _ := BuiltinYAML(name)
		c, err := Parse(text)
		if err != nil {
			t.Errorf("%s:\n%v", name, err)
			continue
		}
		again, err := Parse(c.Canonical())
		if err != nil || again.Revision() != c.Revision() || c.Name != name {
			t.Errorf("%s: the canonical form reads as another promise (%v)\n%s", name, err, c.Canonical())
		}
	}
}
