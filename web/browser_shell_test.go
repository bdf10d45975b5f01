package web

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/web/browsertest"
)

func TestBrowserShellSearchFromAnywhere(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	seedConsole(t, w)
	b := w.tab(w.serve(), store.RoleSupport)
	b.Open("/queue")
	b.Press("/")
	require.Equal(t, "q", browsertest.Eval[string](b, `document.activeElement.id`))
	b.Press("nothing like it\r")
	b.Sees(10*time.Second, "main", "nothing like it")
	b.Press("k", chromedp.KeyModifiers(2))
	require.Equal(t, "q", browsertest.Eval[string](b, `document.activeElement.id`))
}

func TestBrowserShellIsForEverybody(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	seedConsole(t, w)
	b := w.tab(w.serve(), store.RoleSupport)
	browsertest.AxeEverywhere(t, b, "/")
}
