package browsertest

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Widths and Schemes are what every page has to look right at.
var (
	Widths  = []int64{1280, 360}
	Schemes = []string{"light", "dark"}
)

// Fits fails when the page scrolls sideways.
func (b *Tab) Fits() {
	b.t.Helper()
	over := Eval[float64](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`)
	require.Zero(b.t, over, "%s scrolls sideways", b.Location())
}

// Screenshot writes what the window shows to dir/name.png.
func (b *Tab) Screenshot(dir, name string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.NoError(b.t, os.MkdirAll(dir, 0o755))
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

// Picture opens a page in one scheme and width, checks that it fits, and writes
// dir/name-scheme-width.png.
func (b *Tab) Picture(dir, name, path, scheme string, width int64) {
	b.t.Helper()
	b.Scheme(scheme)
	b.Viewport(width)
	b.Open(path)
	b.Holds(patience, `document.body.innerText.trim() !== ""`) // pages of others draw themselves late
	b.Fits()
	b.Screenshot(dir, fmt.Sprintf("%s-%s-%d", name, scheme, width))
}

// Drawing reports whether pictures are wanted.
func Drawing() bool { return os.Getenv("FUSEBOX_TEST_SCREENSHOTS") != "" }

// Pictures is Picture in every scheme and width, into the folder that
// FUSEBOX_TEST_SCREENSHOTS names. Without it the page is opened once and has to fit at
// every width.
func (b *Tab) Pictures(name, path string) {
	b.t.Helper()
	dir := os.Getenv("FUSEBOX_TEST_SCREENSHOTS")
	if dir == "" {
		b.Open(path)
		for _, width := range Widths {
			b.Viewport(width)
			b.Fits()
		}
		return
	}
	for _, scheme := range Schemes {
		for _, width := range Widths {
			b.Picture(dir, name, path, scheme, width)
		}
	}
}
