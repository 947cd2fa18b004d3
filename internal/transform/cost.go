package transform

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// Work is counted in steps of some tens of nanoseconds.
const (
	// maxWork bounds one expression for one event, maxEventWork all expressions
	// for one event. The last expression may go over the latter by the former.
	maxWork      = 20_000
	maxEventWork = 200_000
	// bytesAStep is how much text is compared, searched or copied in a step.
	bytesAStep = 256
	// regexAStep is how many instructions a pattern runs, for each byte, in a step.
	regexAStep = 4
)

// stop ends an evaluation; the program returns the value as its error.
func stop() {
	panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "work limit exceeded"})
}

// bounds keeps the work of one expression within its bound: it counts calls after
// they were made, and looks at some before (bound). cel-go's own figures take a
// comparison of whole structures, and a concatenation of texts whose type only the
// data tells, for one step. What a call does that is only counted afterwards is at
// most linear in the data.
type bounds struct {
	// patterns has the sizes of the expression's patterns.
	patterns map[types.String]int
}

// CallCost implements interpreter.ActualCostEstimator.
func (b *bounds) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	cost := uint64(1)
	switch function {
	case operators.Equals, operators.NotEquals:
		cost += weighEqual(args[0], args[1])
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals, overloads.StartsWith, overloads.EndsWith:
		cost += min(textSize(args[0]), textSize(args[1])) / bytesAStep
	case operators.In:
		if list, ok := args[1].(traits.Lister); ok {
			cost += weigh(list, maxWork)
		}
	case overloads.Matches:
		if text, ok := args[1].(types.String); ok {
			cost += textSize(args[0]) * uint64(b.patterns[text]) / regexAStep
		}
	default:
		for _, a := range args {
			cost += textSize(a) / bytesAStep
		}
	}
	return &cost
}

// textSize is the length of a text or of bytes, 0 for anything else.
func textSize(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	default:
		return 0
	}
}

// weigh counts the steps of walking over a value, no further than most. A list
// that an expression made may hold one value many times over, at any depth: this
// is what bounds the walk.
func weigh(v ref.Val, most uint64) uint64 {
	steps := 1 + textSize(v)/bytesAStep
	switch v := v.(type) {
	case traits.Lister:
		for it := v.Iterator(); steps < most && it.HasNext() == types.True; {
			steps += weigh(it.Next(), most-steps)
		}
	case *object:
		for i := 0; i < len(v.members) && steps < most; i++ {
			steps += 1 + weigh(v.members[i].value, most-steps)
		}
	}
	return steps
}

// bound puts a check in front of calls that could do more work than is linear in
// the data: comparing structures, searching lists, and patterns. It makes lists
// that are written out once.
func (b *bounds) bound(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if list, ok := i.(interpreter.InterpretableConstructor); ok {
		return written(list), nil
	}
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 2 {
		return i, nil
	}
	switch call.Function() {
	case operators.Equals:
		return replace(call, func(args ...ref.Val) ref.Val {
			boundEqual(args[0], args[1])
			return types.Equal(args[0], args[1])
		}), nil
	case operators.NotEquals:
		return replace(call, func(args ...ref.Val) ref.Val {
			boundEqual(args[0], args[1])
			return types.Bool(types.Equal(args[0], args[1]) != types.True)
		}), nil
	case operators.In:
		return replace(call, contains), nil
	case overloads.Matches:
		return b.boundPattern(call)
	default:
		return i, nil
	}
}

// written makes a list of constants once.
func written(list interpreter.InterpretableConstructor) interpreter.InterpretableV2 {
	for _, part := range list.InitVals() {
		if _, ok := part.(interpreter.InterpretableConst); !ok {
			return list
		}
	}
	return interpreter.NewConstValue(list.ID(), list.Eval(interpreter.EmptyActivation()))
}

func replace(call interpreter.InterpretableCall, with func(...ref.Val) ref.Val) interpreter.InterpretableCall {
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), with)
}

// boundEqual lets two values be compared if one of them is small.
func boundEqual(a, b ref.Val) {
	if weighEqual(a, b) >= maxWork {
		stop()
	}
}

// weighEqual counts the steps of comparing two values, which end with the smaller
// one, no further than maxWork. It takes about as many itself.
func weighEqual(a, b ref.Val) uint64 {
	if isPlain(a) || isPlain(b) {
		return min(textSize(a), textSize(b)) / bytesAStep
	}
	for most := uint64(16); ; most = min(4*most, maxWork) {
		if steps := weigh(a, most); steps < most {
			return steps
		}
		if steps := weigh(b, most); steps < most || most == maxWork {
			return steps
		}
	}
}

// isPlain tells whether comparing with v looks at nothing inside another value.
func isPlain(v ref.Val) bool {
	switch v.(type) {
	case traits.Lister, traits.Mapper:
		return false
	default:
		return true
	}
}

// contains is the operator in.
func contains(args ...ref.Val) ref.Val {
	holder, ok := args[1].(traits.Container)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[1])
	}
	if list, isList := holder.(traits.Lister); isList && weigh(list, maxWork) >= maxWork {
		stop()
	}
	return holder.Contains(args[0])
}

// boundPattern runs a pattern, compiled once, over texts that it can't be long
// about.
func (b *bounds) boundPattern(call interpreter.InterpretableCall) (interpreter.InterpretableV2, error) {
	literal, ok := call.Args()[1].(interpreter.InterpretableConst)
	if !ok {
		return call, nil // check refuses it
	}
	text, ok := literal.Value().(types.String)
	if !ok {
		return call, nil
	}
	p, err := compilePattern(string(text))
	if err != nil {
		return nil, err
	}
	b.patterns[text] = p.size
	return replace(call, func(args ...ref.Val) ref.Val {
		in, ok := args[0].(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(args[0])
		}
		if len(in)*p.size/regexAStep > maxWork {
			stop()
		}
		return types.Bool(p.MatchString(string(in)))
	}), nil
}
