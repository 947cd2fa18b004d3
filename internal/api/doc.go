// Package api is the HTTP edge: JSON over HTTP below /v1, error documents, lists
// with cursors, the OpenAPI document and its page.
//
// Operations are rows of one table (operation.go, a file per noun): method, path,
// scope, tenancy, parameters, body. From a row come the route, the order of
// checks before its handler runs, the decoder, and the operation's part of
// /openapi.json, so that the description and the behaviour can't part. The tenant
// is settled in one place, before any handler (admit in serve.go), and is the
// first argument of every store method.
//
// The package must not know how deliveries are made or how anything is stored.
// Start with operation.go, then serve.go.
package api
