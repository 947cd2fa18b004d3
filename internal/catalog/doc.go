// Package catalog holds the words that people read about deliveries and
// endpoints, in English, Japanese and Korean: labels, meanings, remedies,
// banners, actions. The API, the command line and the console share it.
//
// All words are data: en.yaml, ja.yaml, ko.yaml. A text is looked up among the
// contract's own, then among those for contracts of which a fact holds (see
// fact), then among those for all; times and numbers in it are filled in from
// the contract. Texts are plain, neither escaped nor marked up, and may hold an
// operator's name as the contract's author wrote it: who shows them escapes them.
//
// The package knows no contract by name and keeps no state. Start with Load and
// the methods of Texts; keys.go has the closed set of texts.
package catalog
