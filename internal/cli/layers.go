package cli

import (
	"github.com/alecthomas/kong"

	"github.com/posthorn/posthorn/internal/config"
)

// configFlag is the flag that names the configuration file; only commands that
// have it read one.
const (
	configFlag    = "config"
	configEnviron = "POSTHORN_CONFIG"
)

// layers is asked for every flag that the command line does not set: first the
// environment, then the file; what neither knows stays the default.
type layers struct {
	env  config.Lookup
	file config.File // nil until it was read
}

// Validate implements kong.Resolver.
func (*layers) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver; nil means that no layer has a value.
func (l *layers) Resolve(kctx *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	environ := flag.Tag.Get("environ")
	if environ == "" {
		return nil, nil
	}
	if value, ok := l.env.Get(environ); ok {
		return value, nil
	}
	if environ == configEnviron {
		return nil, nil
	}
	if err := l.load(kctx, parent); err != nil {
		return nil, err
	}
	if value, ok := l.file[config.KeyOf(environ)]; ok {
		return value, nil
	}
	return nil, nil
}

// load reads the file that the command names, once.
func (l *layers) load(kctx *kong.Context, parent *kong.Path) error {
	if l.file != nil {
		return nil
	}
	path := ""
	for _, flag := range parent.Flags {
		if flag.Name != configFlag {
			continue
		}
		path, _ = l.env.Get(configEnviron)
		for _, given := range kctx.Path {
			if given.Flag == flag {
				path, _ = kctx.FlagValue(flag).(string)
			}
		}
	}
	if path == "" {
		l.file = config.File{}
		return nil
	}
	file, err := config.ReadFile(path)
	if err != nil {
		return err
	}
	l.file = file
	return nil
}
