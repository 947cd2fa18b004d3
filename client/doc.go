// Package client is the Go client of Posthorn's HTTP API: publish events, keep
// endpoints, read the log of deliveries. It needs the standard library only and
// knows nothing of how the server works.
//
// Start with [Client] and [Client.SendEvent]. Lists come one page at a time
// (ListEvents) or as an iterator that follows the pages (AllEvents). What the
// server refuses comes back as an [*Error] with its code and fields.
//
// Compatibility: exported names stay as they are within a major version of the
// module. The API promises additive change only, and so does this package:
// structs may get fields, so fill them by name; typed strings such as
// [DeliveryStatus] may get values, and values that this version does not know
// are handed through, so keep a default case.
package client
