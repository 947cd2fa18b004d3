//go:build !race

package sqlite

// hurried: see race_test.go.
const hurried = 1
