package httpapi

import (
	"embed"
	"net/http"
)

// pages is a page that shows the OpenAPI document. It loads nothing from
// elsewhere: clusters without internet have documentation too.
//
//go:embed docs
var pages embed.FS

// page serves a file of the documentation.
func page(name, contentType string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		content, err := pages.ReadFile("docs/" + name)
		if err != nil {
			panic(err) // answered and logged like any other panic
		}
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		_, _ = w.Write(content) // the client may be gone
	}
}
