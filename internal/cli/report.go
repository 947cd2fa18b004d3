package cli

import (
	"context"
	"errors"
	"net/url"

	"github.com/posthorn/posthorn/client"
	"github.com/posthorn/posthorn/internal/config"
)

// report says what went wrong, in words for the person at the terminal, and
// returns the exit code.
func report(p *Process, err error) int {
	var (
		silent  exitError
		fault   *config.Fault
		usage   *usageError
		refused *client.Error
		request *url.Error
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &silent):
		return int(silent)
	case errors.As(err, &fault):
		p.warnf("%s", clean(fault.Error()))
		if fault.Setting != "" {
			return exitUsage
		}
		return exitFailed
	case errors.As(err, &usage):
		p.warnf("%s", clean(usage.Error()))
		if usage.command != "" {
			p.warnf("see %s --help", usage.command)
		}
		return exitUsage
	case errors.As(err, &refused):
		reportRefusal(p, refused)
		return exitFailed
	case errors.Is(err, context.Canceled):
		p.warnf("interrupted")
		return exitFailed
	case errors.As(err, &request):
		p.warnf("the request to %s failed: %s; is a Posthorn server there?", clean(request.URL), clean(request.Err.Error()))
		return exitFailed
	default:
		p.warnf("%s", clean(err.Error()))
		return exitFailed
	}
}

// reportRefusal prints a problem document field by field.
func reportRefusal(p *Process, e *client.Error) {
	head := *e
	head.Fields = nil
	p.warnf("%s", clean(head.Error()))
	for _, f := range e.Fields {
		line := f.Pointer + ": " + f.Detail
		if f.Allowed != "" {
			line += "; allowed: " + string(f.Allowed)
		}
		p.warnf("  %s", clean(line))
	}
	if e.Code == client.CodeUnauthorized {
		p.warnf("the server does not know this key; keys come from --key, $POSTHORN_KEY, $POSTHORN_ADMIN_KEY or the data folder, in this order")
	}
	if e.Code == client.CodeTenantRequired {
		p.warnf("name the tenant with --tenant or $POSTHORN_TENANT")
	}
}
