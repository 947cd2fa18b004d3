// Package bench measures a server on this machine: publishers, the server and a
// receiver on loopback, and beside it what plain HTTP reaches between the same
// two ends. Figures are rates, latencies from before the publishing request to
// the arrival at the receiver, what was lost or doubled, and the server's cost.
//
// It reaches the server through its HTTP API only. The load generator writes
// HTTP/1.1 by hand, so that it takes little of the machine that it measures.
//
// Start reading at Run in run.go.
package bench
