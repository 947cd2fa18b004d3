package config

import "fmt"

// Fault is an error that says what to do about it: a setting that can't be
// right, or a start that the machine does not allow (a port in use, a data
// folder that another server holds). Its text is one sentence for the person
// who starts the server.
type Fault struct {
	// Setting is the flag or variable concerned, "" for none.
	Setting string
	// Text goes on after the setting's name, else it is a whole sentence.
	Text string
	// Cause is for logs and errors.Is; it is no part of the text.
	Cause error
}

// NewFault makes a fault about no single setting.
func NewFault(cause error, format string, args ...any) *Fault {
	return &Fault{Text: fmt.Sprintf(format, args...), Cause: cause}
}

func fault(setting, text string) *Fault { return &Fault{Setting: setting, Text: text} }

// Error returns the text.
func (f *Fault) Error() string {
	if f.Setting == "" {
		return f.Text
	}
	return f.Setting + " " + f.Text
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Cause }
