// Command reference writes docs/configuration.md and docs/cli.md from the code,
// the settings' tags and the commands' help, and a page for each built-in contract
// into docs/contracts, from its file and the English texts. Its argument is the
// folder of the documents.
//
// Start with main; the pages of contracts begin in contracts.go.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/posthorn/posthorn/internal/cli"
	"github.com/posthorn/posthorn/internal/config"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference DIR")
		os.Exit(2) //nolint:forbidigo // because this is a program of its own
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1) //nolint:forbidigo // because this is a program of its own
	}
}

func write(folder string) error {
	if err := os.Setenv("COLUMNS", "80"); err != nil {
		return err
	}
	var settings, commands bytes.Buffer
	if err := config.WriteReference(&settings); err != nil {
		return err
	}
	if err := cli.WriteReference(context.Background(), &commands); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "configuration.md"), settings.Bytes(), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "cli.md"), commands.Bytes(), 0o644); err != nil {
		return err
	}
	pages, err := contractPages(folder)
	if err != nil {
		return err
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(folder, "contracts", name+".md"), []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}
