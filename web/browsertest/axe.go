package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Languages of the console, as its pages name them.
var Languages = []string{"en", "fr", "es", "uk"}

// axeRun runs axe-core on the document and returns the violations alone; null where it
// is not on the page yet. The argument is what to run.
const axeRun = `((only) => !window.axe ? null : axe.run(document, {
	runOnly: only, resultTypes: ["violations"], preload: false,
}).then((r) => r.violations.map((v) => ({id: v.id, help: v.help, nodes: v.nodes.map((n) => ({
	target: n.target.flat().join(" "), html: n.html, why: n.failureSummary}))}))))`

// everyRule is WCAG 2.0 to 2.2, A and AA, and axe-core's best practices.
const everyRule = `{type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}`

// colourRules are the rules that a colour scheme can break; what the others look at is
// the same document in both.
const colourRules = `{type: "rule", values: ["color-contrast", "link-in-text-block"]}`

// Finding is a rule of axe-core that a page breaks, and where.
type Finding struct {
	ID, Help string
	Nodes    []struct{ Target, HTML, Why string }
}

// String is the finding as a person reads it in a test's output.
func (f Finding) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s: %s", f.ID, f.Help)
	for i, n := range f.Nodes {
		if i == 4 {
			fmt.Fprintf(&s, "\n  and %d more", len(f.Nodes)-i)
			break
		}
		why := strings.Join(strings.Fields(n.Why), " ")
		fmt.Fprintf(&s, "\n  %s\n    %.300s\n    %.400s", n.Target, n.HTML, why)
	}
	return s.String()
}

// axeSource reads axe-core, which static/build.sh installs.
var axeSource = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			err = os.ErrNotExist
		}
	}
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(filepath.Join(dir, "static", "node_modules", "axe-core", "axe.min.js"))
	return string(source), err
})

// Findings runs axe-core on the page as it stands.
func (b *Tab) Findings() []Finding {
	b.t.Helper()
	return b.findings(everyRule)
}

// findings sends axe-core to a page once: it is half a megabyte. Evaluated over the
// protocol, so the page's policy neither stops nor notices it.
func (b *Tab) findings(rules string) []Finding {
	b.t.Helper()
	run := axeRun + "(" + rules + ")"
	if found := Eval[*[]Finding](b, run); found != nil {
		return *found
	}
	source, err := axeSource()
	require.NoError(b.t, err, "axe-core is missing: run static/build.sh")
	return Eval[[]Finding](b, "(() => {\n"+source+"\nreturn "+run+"})()")
}

// Axe fails the test when axe-core finds anything on the page as it stands.
func Axe(t testing.TB, b *Tab) {
	t.Helper()
	report(t, b, everyRule, "")
}

func report(t testing.TB, b *Tab, rules, where string) {
	t.Helper()
	for _, f := range b.findings(rules) {
		t.Errorf("axe on %s %s\n%s", strings.TrimPrefix(b.Location(), b.base), where, f)
	}
}

// AxeEverywhere opens a page in each language and runs Axe on it at 1280 and 360 px, in
// light and dark. It also fails when the page scrolls sideways. The person's language is
// changed on the way, and is English again at the end.
//
// In dark only the rules about colour can find anything new.
func AxeEverywhere(t testing.TB, b *Tab, path string) {
	t.Helper()
	wide, narrow := Widths[0], Widths[1]
	type look struct {
		width         int64
		scheme, rules string
	}
	looks := []look{{wide, "light", everyRule}, {wide, "dark", colourRules}, {narrow, "dark", colourRules}, {narrow, "light", everyRule}}
	for _, lang := range append(Languages[1:len(Languages):len(Languages)], Languages[0]) {
		b.Language(lang)
		b.Open(path)
		got := Eval[string](b, "document.documentElement.lang")
		require.Equal(t, lang, got, "the language of %s", path)
		for _, l := range looks {
			b.Viewport(l.width)
			b.Scheme(l.scheme)
			b.Fits()
			report(t, b, l.rules, fmt.Sprintf("(%s, %d px, %s)", lang, l.width, l.scheme))
		}
	}
	b.Viewport(wide)
	b.Scheme("light")
}

// Language changes the reader's language as the preference form does. A tab that shows
// no page of the console yet goes to the sign-in page first.
func (b *Tab) Language(lang string) {
	b.t.Helper()
	if !strings.HasPrefix(b.Location(), b.base) {
		b.Open("/signin")
	}
	status := Eval[int](b, fmt.Sprintf(`fetch("/preferences", {method: "POST", body: new URLSearchParams({lang: %q, back: "/"}),
		redirect: "manual"}).then((r) => r.type === "opaqueredirect" ? 303 : r.status)`, lang))
	require.Equal(b.t, 303, status, "the language was not changed")
}
