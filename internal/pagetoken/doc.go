// Package pagetoken makes and reads the page tokens with which a receiver reads a
// run's events (S3, S13). A token is a bearer without any state: it names the
// delivery that it was made for, always in the same bytes, so all attempts bear
// the same one and a redelivery another. What it opens and for how long hangs on
// that delivery, which the reader of a token looks up.
//
// The package must not know what a delivery is beyond its position. Start with
// Issue and Parse.
package pagetoken
