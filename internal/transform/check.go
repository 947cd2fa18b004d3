package transform

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"github.com/posthorn/posthorn/internal/webhook"
)

// Bounds of an expression.
const (
	// MaxBytes is the longest expression.
	MaxBytes = 2048
	// maxNesting and maxNodes bound its tree, macros written out.
	maxNesting = 50
	maxNodes   = 2000
	// maxRegex bounds the program of a pattern, in instructions.
	maxRegex = 500
	// usualSize is what the estimate takes for the length of each list and text in
	// the data, and maxEstimate the most work that an expression may need then: one
	// loop inside another passes, a third does not.
	usualSize   = 200
	maxEstimate = 4_000_000
)

const allowedForm = "a CEL expression over type, event and data that is true or false, such as type == \"order.paid\" && data.amount > 100"

// unfit refuses an expression.
func unfit(detail, allowed string) *webhook.Problem {
	return webhook.InvalidField("/filter", "The filter can't be taken. "+detail, allowed)
}

// unfitAt refuses an expression for what stands at a place.
func unfitAt(at common.Location, detail, allowed string) *webhook.Problem {
	if at == nil || at.Line() < 1 {
		return unfit(detail, allowed)
	}
	return unfit(fmt.Sprintf("Line %d, column %d: %s", at.Line(), at.Column()+1, detail), allowed)
}

// explain puts the first fault that the compiler found into words of ours. Its
// own quote the expression, which an error must not.
func explain(faults []*cel.Error) *webhook.Problem {
	const (
		names  = "type, data, and of event id, type, created_at, ordering_key and tenant; the functions and macros of CEL"
		values = "values that fit their operator; what is read from data can be compared with anything, and converted by int(), double(), string()"
	)
	if len(faults) == 0 {
		return unfit("It can't be read.", allowedForm)
	}
	at, said := faults[0].Location, faults[0].Message
	switch {
	case strings.Contains(said, "limit"):
		return unfit("It is nested too deep or has too many parts.", fmt.Sprintf("at most %d levels, %d parts", maxNesting, maxNodes))
	case strings.HasPrefix(said, "Syntax error"):
		return unfitAt(at, "something stands there that no expression can have.", allowedForm)
	case strings.HasPrefix(said, "undeclared reference"):
		return unfitAt(at, "there is no variable or function of this name.", names)
	case strings.HasPrefix(said, "undefined field"), strings.Contains(said, "does not support field selection"):
		return unfitAt(at, "what stands before the dot has no such field.", names)
	case strings.HasPrefix(said, "found no matching overload"), strings.HasPrefix(said, "expected type"):
		return unfitAt(at, "the operator or function does not take values of these types.", values)
	case strings.Contains(said, "range of a comprehension"):
		return unfitAt(at, "only lists, maps and data can be gone through.", values)
	default:
		return unfitAt(at, "this can't be evaluated.", allowedForm)
	}
}

// check holds a compiled expression against what filters may be beyond CEL.
func check(env *cel.Env, compiled *cel.Ast) error {
	tree := compiled.NativeRep()
	if !compiled.OutputType().IsExactType(types.BoolType) {
		return unfit("Its value is not true or false.", "an expression that is true or false; a field of the data is compared, such as data.active == true")
	}
	var fault error
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if detail, allowed := refuse(e); detail != "" && fault == nil {
			fault = unfitAt(tree.SourceInfo().GetStartLocation(e.ID()), detail, allowed)
		}
	}))
	if fault != nil {
		return fault
	}
	estimate, err := env.EstimateCost(compiled, sizes{}, cost.PresenceTestHasCost(false))
	if err != nil || estimate.Max > maxEstimate {
		return unfit("It could need too much work for one event.", "fewer loops inside one another; two levels of exists(), all(), filter() or map() over data pass")
	}
	return nil
}

// refuse names what filters can't have: each would let a short text do much
// work, or work that can't be counted.
func refuse(e ast.Expr) (detail, allowed string) {
	switch e.Kind() {
	case ast.StructKind:
		return "objects can't be made in a filter.", "values of the event, texts, numbers, true, false, null and lists"
	case ast.MapKind:
		return "maps can't be made in a filter.", "values of the event, texts, numbers, true, false, null and lists"
	case ast.CallKind:
		return refuseCall(e.AsCall())
	case ast.ComprehensionKind, ast.IdentKind, ast.ListKind, ast.LiteralKind, ast.SelectKind, ast.UnspecifiedExprKind:
	}
	return "", ""
}

func refuseCall(c ast.CallExpr) (detail, allowed string) {
	const pattern = "a regular expression of RE2 written out as text, of moderate size"
	switch name := c.FunctionName(); {
	case name == overloads.Matches:
		text, ok := patternOf(c)
		if !ok {
			return "the pattern of matches() must be written out.", pattern
		}
		if _, err := compilePattern(text); err != nil {
			return "the pattern of matches() can't be used.", pattern
		}
	case c.IsMemberFunction() && len(c.Args()) == 1 && strings.HasPrefix(name, "get"):
		// Names of zones are looked up in files.
		return "times are in UTC; a zone can't be named.", "the function without a zone"
	}
	return "", ""
}

func patternOf(c ast.CallExpr) (text string, ok bool) {
	args := c.Args()
	if len(args) == 0 || args[len(args)-1].Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok = args[len(args)-1].AsLiteral().Value().(string)
	return text, ok
}

// pattern is a compiled one with its size in instructions.
type pattern struct {
	*regexp.Regexp
	size int
}

// compilePattern sizes a pattern before it compiles it. cel-go's own sizing
// panics on counted repeats.
func compilePattern(text string) (pattern, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return pattern{}, fmt.Errorf("reading a pattern: %w", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return pattern{}, fmt.Errorf("sizing a pattern: %w", err)
	}
	if size := len(program.Inst); size > maxRegex {
		return pattern{}, fmt.Errorf("a pattern has %d instructions", size)
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return pattern{}, fmt.Errorf("compiling a pattern: %w", err)
	}
	return pattern{compiled, len(program.Inst)}, nil
}

// sizes estimates what the compiler can't know.
type sizes struct{}

// EstimateSize implements cost.Estimator.
func (sizes) EstimateSize(cost.AstNode) *cost.SizeEstimate {
	return &cost.SizeEstimate{Max: usualSize}
}

// EstimateCallCost implements cost.Estimator.
func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
