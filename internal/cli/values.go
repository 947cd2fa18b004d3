package cli

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// valueMappers read numbers and durations, so that what is wrong with one is
// said in the same words as everything else.
func valueMappers() []kong.Option {
	return []kong.Option{
		kong.KindMapper(reflect.Int, kong.MapperFunc(mapInt)),
		kong.KindMapper(reflect.Int64, kong.MapperFunc(mapInt)),
		kong.KindMapper(reflect.Uint64, kong.MapperFunc(mapUint)),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(mapDuration)),
	}
}

// popText takes the value that follows a flag. A number may begin with a minus,
// which would make it a flag elsewhere.
func popText(ctx *kong.DecodeContext) (string, error) {
	if ctx.Scan.Peek().IsEOL() {
		return "", errNoValue()
	}
	return fmt.Sprint(ctx.Scan.Pop().Value), nil
}

func errNoValue() error { return errors.New("its value is missing") }

func mapInt(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := popText(ctx)
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(text, 10, target.Type().Bits())
	if err != nil {
		return fmt.Errorf("%q is no whole number", text)
	}
	target.SetInt(n)
	return nil
}

func mapUint(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := popText(ctx)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(text, 10, target.Type().Bits())
	if err != nil {
		return fmt.Errorf("%q is no whole number from 0 on", text)
	}
	target.SetUint(n)
	return nil
}

// mapDuration is for settings of the server: their unit has to be named, for the
// same text stands in files and in the environment.
func mapDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := popText(ctx)
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is no duration with a unit, such as 30s, 5m or 1h", text)
	}
	target.SetInt(int64(d))
	return nil
}

// plainly puts what the parser says of a value that is not there in our words.
func plainly(err error) error {
	flag, rest, ok := strings.Cut(err.Error(), ": expected ")
	if ok && strings.Contains(rest, `"EOL"`) {
		return fmt.Errorf("%s: %w", flag, errNoValue())
	}
	return err
}
