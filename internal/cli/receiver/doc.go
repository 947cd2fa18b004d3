// Package receiver is a receiver of webhooks for trials: it checks every
// signature and answers as it was told to, with failures too. The commands
// listen and demo stand on it.
//
// It knows nothing of the server that sends. Start reading at ParseAnswers for
// how answers are written, and at Receiver.
package receiver
