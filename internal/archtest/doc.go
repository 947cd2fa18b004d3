// Package archtest holds what the repository promises about itself, as tests:
// which package may import which, how long functions and files may be, that
// every package says what it is, that documents name only what exists, and that
// rules that are called kept have a test. With the build tag readme it also runs
// the commands of README.md.
//
// The rules are data at the head of each test file. A new package needs a row in
// imports_test.go before it builds green. There is nothing here but tests.
package archtest
