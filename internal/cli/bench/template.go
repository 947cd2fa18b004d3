package bench

import (
	"bytes"
	"strconv"
	"strings"
)

// Every event carries its number, always in as many digits, so that a request
// is a template in which only these digits change.
const (
	numberMark   = `"n":"`
	numberDigits = 8
)

// eventJSON is an event whose data has size bytes and the number 0.
func eventJSON(size int) string {
	head := `{` + numberMark + strings.Repeat("0", numberDigits) + `","pad":"`
	data := head + strings.Repeat("x", max(0, size-len(head)-2)) + `"}`
	return `{"type":"` + eventType + `","data":` + data + `}`
}

// putNumber writes a number over its place, which begins at at.
func putNumber(b []byte, at, n int) {
	for i := at + numberDigits - 1; i >= at; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}

// findNumber reads the number out of a body; false if there is none.
func findNumber(body []byte) (int, bool) {
	at := bytes.Index(body, []byte(numberMark))
	if at < 0 || len(body) < at+len(numberMark)+numberDigits {
		return 0, false
	}
	at += len(numberMark)
	n, err := strconv.Atoi(string(body[at : at+numberDigits]))
	return n, err == nil
}

// request is a publishing request with its numbers' places.
type request struct {
	bytes []byte
	// numbers are where each event's number stands.
	numbers []int
}

// newRequest writes a request of batch events.
func newRequest(target Target, size, batch int) request {
	event := eventJSON(size)
	mediaType, separator := "application/json", ""
	if batch > 1 {
		mediaType, separator = "application/x-ndjson", "\n"
	}
	body := strings.Repeat(event+separator, batch)
	head := "POST /v1/events HTTP/1.1\r\nHost: " + target.Addr + "\r\nAuthorization: Bearer " + target.Key +
		"\r\nContent-Type: " + mediaType + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	r := request{bytes: []byte(head + body)}
	at := len(head) + strings.Index(event, numberMark) + len(numberMark)
	for i := range batch {
		r.numbers = append(r.numbers, at+i*len(event+separator))
	}
	return r
}
