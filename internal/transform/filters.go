package transform

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/posthorn/posthorn/internal/webhook"
)

// What an evaluation did beside telling whether an event fulfils a filter.
var (
	// ErrBudget: the expression, or the event over all its endpoints, needed more
	// work than is allowed. The event counts as one that fulfils it: a delivery too
	// many can be told from the log, one too few can't.
	ErrBudget = errors.New("the filter needs more work than is allowed")
	// ErrEvaluation: the expression has no value for this event; most often it reads
	// a field that is not there without has(). The event does not fulfil it.
	ErrEvaluation = errors.New("the filter has no value for this event")
)

// defaultKept is how many compiled expressions are kept for further endpoints
// with the same text, unless configured.
const defaultKept = 1024

// Config is what Filters need.
type Config struct {
	// Note is told of each evaluation that ended in ErrBudget or ErrEvaluation, by
	// that error. It must be safe for concurrent use and must not block. May be nil.
	Note func(err error)
	// Kept bounds the compiled expressions that are kept by their text; 0 is 1,024.
	// Those in use live on with their users.
	Kept int
}

// Filters compiles expressions. It is safe for concurrent use.
type Filters struct {
	env  *cel.Env
	note func(error)
	kept int

	mu       sync.Mutex
	compiled map[string]*Filter
}

// New makes Filters.
func New(cfg Config) (*Filters, error) {
	env, err := newEnv()
	if err != nil {
		return nil, fmt.Errorf("preparing filters: %w", err)
	}
	f := &Filters{env: env, note: cfg.Note, kept: cfg.Kept, compiled: make(map[string]*Filter)}
	if f.note == nil {
		f.note = func(error) {}
	}
	if f.kept == 0 {
		f.kept = defaultKept
	}
	return f, nil
}

// newEnv declares what expressions see. The fields of event are variables with a
// dot in their names, so that a name which is none is found when compiling.
func newEnv() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("type", cel.StringType),
		cel.Variable("event.id", cel.StringType),
		cel.Variable("event.type", cel.StringType),
		cel.Variable("event.created_at", cel.TimestampType),
		cel.Variable("event.ordering_key", cel.StringType),
		cel.Variable("event.tenant", cel.StringType),
		cel.Variable("data", cel.DynType),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserRecursionLimit(maxNesting),
		cel.ParserErrorRecoveryLimit(1),
		cel.ExpressionNodeLimit(maxNodes),
	)
}

// Filter is a compiled expression. It is safe for concurrent use.
type Filter struct {
	text    string
	program cel.Program
	note    func(error)
}

// String returns the expression.
func (f *Filter) String() string { return f.text }

// Compile reads and checks an expression. The error is a *Problem (invalid_field,
// pointer /filter) that says where the expression is wrong and what is allowed,
// and echoes none of it.
func (f *Filters) Compile(expr string) (*Filter, error) {
	f.mu.Lock()
	found := f.compiled[expr]
	f.mu.Unlock()
	if found != nil {
		return found, nil
	}
	program, err := compile(f.env, expr)
	if err != nil {
		return nil, err
	}
	made := &Filter{text: expr, program: program, note: f.note}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.compiled) >= f.kept {
		// Any one will do: what is used lives on with its users.
		for old := range maps.Keys(f.compiled) {
			delete(f.compiled, old)
			break
		}
	}
	f.compiled[expr] = made
	return made, nil
}

// compile checks an expression and plans its evaluation.
func compile(env *cel.Env, expr string) (cel.Program, error) {
	if len(expr) == 0 || len(expr) > MaxBytes {
		return nil, unfit("It has no text, or too much.", fmt.Sprintf("an expression of 1 to %d bytes", MaxBytes))
	}
	ast, issues := env.Compile(expr)
	if issues.Err() != nil {
		return nil, explain(issues.Errors())
	}
	if err := check(env, ast); err != nil {
		return nil, err
	}
	limits := &bounds{patterns: make(map[types.String]int)}
	program, err := env.Program(ast,
		cel.EvalOptions(cel.OptTrackCost),
		cel.CustomDecoratorV2(limits.bound),
		cel.CostTracking(limits),
		cel.CostLimit(maxWork),
	)
	if err != nil {
		return nil, unfit("It can't be planned.", allowedForm)
	}
	return program, nil
}

// Match tells whether an event fulfils the filter. With an error, which is
// ErrBudget or ErrEvaluation, the answer is what such an event counts as.
func (f *Filter) Match(e *Event) (bool, error) {
	if e.work >= maxEventWork {
		f.note(ErrBudget)
		return true, ErrBudget
	}
	out, details, err := f.program.Eval(e)
	switch {
	case err == nil:
		e.work += workOf(details)
		return out == types.True, nil
	case isBudget(err):
		e.work += maxWork
		f.note(ErrBudget)
		return true, ErrBudget
	default:
		e.work += workOf(details)
		f.note(ErrEvaluation)
		return false, ErrEvaluation
	}
}

// workOf is what an evaluation cost.
func workOf(details *cel.EvalDetails) uint64 {
	if details != nil {
		if cost := details.ActualCost(); cost != nil {
			return *cost
		}
	}
	return maxWork
}

func isBudget(err error) bool {
	canceled, ok := errors.AsType[interpreter.EvalCancelledError](err)
	return ok && canceled.Cause == interpreter.CostLimitExceeded
}

// Filter is Compile for those who know filters as functions: fulfils is Match for
// what Open returned.
func (f *Filters) Filter(expr string) (fulfils func(opened any) (bool, error), err error) {
	compiled, err := f.Compile(expr)
	if err != nil {
		return nil, err
	}
	return func(opened any) (bool, error) {
		e, ok := opened.(*Event)
		if !ok {
			return false, ErrEvaluation
		}
		return compiled.Match(e)
	}, nil
}

// Open opens an event for the functions that Filter returns, see NewEvent.
func (*Filters) Open(e *webhook.Event, data func() any) (opened any) { return NewEvent(e, data) }
