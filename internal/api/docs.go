package api

import (
	"embed"
	"fmt"
	"net/http"
	"strconv"
)

// docsFiles is a page that shows /openapi.json: no library, nothing from
// elsewhere, so that it works offline and under a strict policy.
//
//go:embed docs/index.html docs/docs.js docs/docs.css
var docsFiles embed.FS

// docsPolicy lets the page load its own files and read the document, nothing
// else: no inline code, no frames, no forms.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// addDocs adds the routes of the page. They are no operations: people open them.
func (a *API) addDocs() error {
	for _, file := range []struct{ route, name, mediaType string }{
		{"/docs", "docs/index.html", "text/html; charset=utf-8"},
		{"/docs/docs.js", "docs/docs.js", "text/javascript; charset=utf-8"},
		{"/docs/docs.css", "docs/docs.css", "text/css; charset=utf-8"},
	} {
		text, err := docsFiles.ReadFile(file.name)
		if err != nil {
			return fmt.Errorf("reading %s: %w", file.name, err)
		}
		a.mux.HandleFunc("GET "+file.route, func(w http.ResponseWriter, r *http.Request) {
			a.dropBody(w, r)
			h := w.Header()
			h.Set("Content-Type", file.mediaType)
			h.Set("Content-Security-Policy", docsPolicy)
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("Content-Length", strconv.Itoa(len(text)))
			_, _ = w.Write(text)
		})
	}
	return nil
}
