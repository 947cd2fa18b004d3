package transform

import (
	"fmt"
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

const (
	// maxName is the longest name, in bytes, that a member is looked for by; looking
	// for a longer one would cost more than the step that it is counted as.
	maxName = 4096
	// indexed is from how many members on an object has an index.
	indexed = 16
	// usualMembers is how many members a new object has room for.
	usualMembers = 4
)

// object is a JSON object as expressions see it, in the order of its members. Of
// members with one name the last counts, as for most receivers.
type object struct {
	members []member
	index   map[string]int // nil for a small object
}

type member struct {
	name  string
	value ref.Val
}

var _ traits.Mapper = (*object)(nil)

// put adds a member or replaces its value.
func (o *object) put(name string, value ref.Val) {
	if i, ok := o.place(name); ok {
		o.members[i].value = value
		return
	}
	if len(o.members) == indexed {
		o.index = make(map[string]int, 2*indexed)
		for i := range o.members {
			o.index[o.members[i].name] = i
		}
	}
	if o.index != nil {
		o.index[name] = len(o.members)
	}
	if o.members == nil {
		o.members = make([]member, 0, usualMembers)
	}
	o.members = append(o.members, member{name, value})
}

func (o *object) place(name string) (int, bool) {
	if o.index != nil {
		i, ok := o.index[name]
		return i, ok
	}
	for i := range o.members {
		if o.members[i].name == name {
			return i, true
		}
	}
	return 0, false
}

// Find implements traits.Mapper.
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok || len(name) > maxName {
		return nil, false
	}
	i, ok := o.place(string(name))
	if !ok {
		return nil, false
	}
	return o.members[i].value, true
}

// Get implements traits.Indexer.
func (o *object) Get(key ref.Val) ref.Val {
	if v, ok := o.Find(key); ok {
		return v
	}
	return types.NewErr("no such key")
}

// Contains implements traits.Container.
func (o *object) Contains(key ref.Val) ref.Val {
	_, ok := o.Find(key)
	return types.Bool(ok)
}

// Size implements traits.Sizer.
func (o *object) Size() ref.Val { return types.Int(len(o.members)) }

// Iterator implements traits.Iterable: it goes through the names.
func (o *object) Iterator() traits.Iterator {
	names := make([]ref.Val, len(o.members))
	for i := range o.members {
		names[i] = types.String(o.members[i].name)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, names).Iterator()
}

// Equal implements ref.Val.
func (o *object) Equal(other ref.Val) ref.Val {
	b, ok := other.(*object)
	if !ok || len(o.members) != len(b.members) {
		return types.False
	}
	for _, m := range o.members {
		at, ok := b.place(m.name)
		if !ok || types.Equal(m.value, b.members[at].value) != types.True {
			return types.False
		}
	}
	return types.True
}

// ConvertToType implements ref.Val: an object is a map and nothing else.
func (o *object) ConvertToType(to ref.Type) ref.Val {
	switch to {
	case types.MapType:
		return o
	case types.TypeType:
		return types.MapType
	default:
		return types.NewErr("an object has no other type")
	}
}

// ConvertToNative implements ref.Val; nothing asks for it.
func (*object) ConvertToNative(to reflect.Type) (any, error) {
	return nil, fmt.Errorf("an object can't be turned into %v", to)
}

// Type implements ref.Val.
func (*object) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (o *object) Value() any { return o }
