// Package config owns the server's settings: one struct, what each setting is
// called as a flag, in the environment and in the file, what it is by default
// and what values it may have. It reads the file; the flags are parsed, and the
// layers put in order, by internal/cli.
//
// It knows nothing of what the settings do. A value is looked for as a flag,
// then in the environment, then in the file, then it is the default.
//
// Start reading at Server.
package config
