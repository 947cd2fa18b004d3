package api

import "strings"

// mergePatch applies a JSON merge patch (RFC 7396) to an object and returns the
// result; target is changed.
func mergePatch(target, patch map[string]any) map[string]any {
	for name, v := range patch {
		inner, ok := v.(map[string]any)
		switch {
		case v == nil:
			delete(target, name)
		case ok:
			old, _ := target[name].(map[string]any)
			if old == nil {
				old = map[string]any{}
			}
			target[name] = mergePatch(old, inner)
		default:
			target[name] = v
		}
	}
	return target
}

// alignNames gives the patch's header names the spelling that is stored, since
// upper and lower case name the same header. What the patch names twice stays so
// and is refused later.
func alignNames(stored any, patch map[string]any) map[string]any {
	old, _ := stored.(map[string]any)
	out := make(map[string]any, len(patch))
	for name, v := range patch {
		aligned := name
		for known := range old {
			if strings.EqualFold(known, name) {
				aligned = known
			}
		}
		if _, twice := out[aligned]; twice {
			aligned = name
		}
		out[aligned] = v
	}
	return out
}
