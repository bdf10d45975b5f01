package simulator

import (
	"errors"
	"html/template"
	"net/http"
	"strings"
)

// actionPage stands for the bank's page a customer is sent to.
var actionPage = template.Must(template.New("action").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Confirm payment · {{.Name}}</title>
<style>
body{font:16px/1.5 system-ui,sans-serif;margin:0;min-height:100vh;display:grid;place-items:center;background:#f3f4f6;color:#111827}
main{background:#fff;padding:2rem;border-radius:12px;max-width:22rem;box-shadow:0 1px 3px #0002}
h1{font-size:1.125rem;margin:0 0 1rem}dl{display:grid;grid-template-columns:auto 1fr;gap:.25rem 1rem;margin:0 0 1.5rem}
dt{color:#4b5563}dd{margin:0;text-align:right;overflow-wrap:anywhere}
button{font:inherit;padding:.6rem 1rem;border-radius:8px;border:1px solid #d1d5db;background:#fff;cursor:pointer}
button[value=succeeded]{background:#065f46;border-color:#065f46;color:#fff}
@media(prefers-color-scheme:dark){body{background:#111827;color:#f9fafb}main{background:#1f2937}dt{color:#9ca3af}button{background:#374151;color:#f9fafb;border-color:#4b5563}}
</style></head><body><main>
<h1>{{.Name}} (simulated bank)</h1>
<dl><dt>Payment</dt><dd>{{.Charge.Reference}}</dd><dt>Amount</dt><dd>{{.Charge.Amount}} {{.Charge.Currency}} (minor units)</dd><dt>Status</dt><dd>{{.Charge.Status}}</dd></dl>
{{if eq .Charge.Status "requires_action"}}<form method="post">
<button name="status" value="succeeded">Approve</button>
<button name="status" value="failed">Decline</button>
</form>{{else}}<p>Nothing left to do here. You can close this page.</p>{{end}}
</main></body></html>
`))

// showAction shows the customer what is to be approved.
func (s *Server) showAction(w http.ResponseWriter, r *http.Request) {
	c, err := s.book.get(r.PathValue("id"))
	if err != nil {
		http.Error(w, "no such payment", http.StatusNotFound)
		return
	}
	var page strings.Builder
	view := struct {
		Name   string
		Charge Charge
	}{s.opts.Name, c}
	if err := actionPage.Execute(&page, view); err != nil {
		s.opts.Log.Error("action page", "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'")
	writeBytes(w, http.StatusOK, "text/html; charset=utf-8", []byte(page.String()))
}

// doAction takes the customer's decision and shows the page again.
func (s *Server) doAction(w http.ResponseWriter, r *http.Request) {
	status := r.PostFormValue("status")
	if status != StatusSucceeded && status != StatusFailed {
		http.Error(w, "status must be succeeded or failed", http.StatusBadRequest)
		return
	}
	_, err := s.Complete(r.PathValue("id"), status)
	switch {
	case errors.Is(err, errNoCharge):
		http.Error(w, "no such payment", http.StatusNotFound)
	case err != nil && !errors.Is(err, errDecided):
		s.opts.Log.Error("customer action", "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
	default:
		http.Redirect(w, r, r.URL.Path, http.StatusSeeOther)
	}
}
