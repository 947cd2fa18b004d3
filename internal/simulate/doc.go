// Package simulate plays written answers to a contract: it reads lists such as
// "500*3,429:retry-after=120,timeout,200" and writes what the contract makes of
// each answer. The command line and the API share it, so that both say the same.
//
// It decides nothing: contract.Simulate does, by the code that a server runs. It
// must know neither HTTP nor terminals. Start reading at Play.
package simulate
