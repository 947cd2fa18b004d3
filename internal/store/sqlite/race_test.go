//go:build race

package sqlite

// hurried divides the sizes of tests that only have to be large: under the race
// detector each row takes some twenty times as long.
const hurried = 5
