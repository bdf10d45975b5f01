package web

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"fusebox/views"
	"fusebox/views/components"
)

// renderErrorView answers a person: the fragment into what htmx was filling, else a page.
func (s *Server) renderErrorView(c echo.Context, p problem) error {
	v := views.ErrorView{Status: p.Status, Code: p.code, Title: p.Title, Detail: p.Detail,
		RequestID: requestIDOf(c), Needs: p.needs, SignedIn: s.user(c).Email != "", Back: cameFrom(c)}
	for _, f := range p.Errors {
		v.Fields = append(v.Fields, views.ErrorField{Field: f.Field, Reason: f.Reason})
	}
	if p.Status >= http.StatusInternalServerError {
		v.Again = again(s.viewContext(c), c.Request())
		v.Unsure = c.Request().Method == http.MethodPost
	}
	if isHTMX(c) {
		return s.render(c, p.Status, views.ErrorFragment(v))
	}
	return s.render(c, p.Status, views.ErrorPage(v))
}

// again repeats a failed request without JavaScript: a page by its address, a form with
// all that was in it. Only forms with a one-time id are repeated, because those count
// once, and none with a secret: it would stand in the page.
func again(ctx context.Context, r *http.Request) *views.Again {
	if r.Method != http.MethodPost {
		return &views.Again{URL: r.URL.RequestURI()}
	}
	if !r.PostForm.Has("action_id") || slices.ContainsFunc(slices.Collect(maps.Keys(r.PostForm)), secret) {
		return nil
	}
	a := &views.Again{URL: r.URL.RequestURI(), Post: true, Typed: typed(ctx, r)}
	for _, name := range slices.Sorted(maps.Keys(r.PostForm)) {
		for _, value := range r.PostForm[name] {
			a.Hidden = append(a.Hidden, components.HiddenField{Name: name, Value: value})
		}
	}
	return a
}

// secret reports whether a field of that name may hold a password, a code or a key.
func secret(name string) bool {
	return slices.ContainsFunc([]string{"password", "code", "secret", "token", "key"}, func(word string) bool {
		return strings.Contains(strings.ToLower(name), word)
	})
}

// words are the fields that people write into, in the order they are shown.
var words = []string{"amount", "evidence", "reason", "note"}

// typed is what a person wrote into a form.
func typed(ctx context.Context, r *http.Request) (terms []components.Term) {
	for _, name := range words {
		if value := r.PostForm.Get(name); value != "" {
			terms = append(terms, components.Term{Label: views.Opt(ctx, "shell.field.", name), Value: value, Copy: true})
		}
	}
	return terms
}

// keptWords is what the form that is shown after a refusal has no fields for any more.
func keptWords(ctx context.Context, r *http.Request, props components.ConfirmProps) []components.Term {
	if r.Method != http.MethodPost || props.Reason != nil || len(props.Fields) > 0 {
		return nil
	}
	return typed(ctx, r)
}

// cameFrom is the page of ours that the request came from, empty if none did. Browsers
// send it whole to their own origin (Referrer-Policy: same-origin).
func cameFrom(c echo.Context) string {
	from, err := url.Parse(c.Request().Referer())
	if err != nil || from.Host == "" || from.Host != c.Request().Host {
		return ""
	}
	if to := from.RequestURI(); safeNext(to) == to {
		return to
	}
	return ""
}

// toSignIn sends a person to the sign-in page, which leads back to the page they asked
// for, or to the one whose form they sent. htmx follows a redirect inside its fragment,
// so it gets a 401 that names the page.
func (s *Server) toSignIn(c echo.Context) error {
	next := cameFrom(c)
	if r := c.Request(); r.Method == http.MethodGet && !isHTMX(c) && !isStream(c) {
		next = r.URL.RequestURI()
	} else if here, err := url.Parse(r.Header.Get("HX-Current-URL")); err == nil && isHTMX(c) && here.Path != "" {
		next = here.RequestURI()
	}
	to := "/signin"
	if next != "" && next != "/" {
		to += "?next=" + url.QueryEscape(next)
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	switch {
	case isHTMX(c):
		c.Response().Header().Set("HX-Redirect", to)
		return c.NoContent(http.StatusUnauthorized)
	case isStream(c):
		return c.NoContent(http.StatusUnauthorized)
	}
	return c.Redirect(http.StatusSeeOther, to)
}
