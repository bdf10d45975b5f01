// Package static embeds the console's stylesheet, scripts and fonts and serves
// them under names that contain a hash of their content, so that browsers may
// keep them for ever.
//
// Own files live in css/ and js/. Vendored ones are copied to dist/ by build.sh
// and are not committed; without them the package still compiles, and Check says
// what to run.
package static

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
	"sort"
	"strings"
)

//go:embed css/*.css js/*.js img/* all:dist
var files embed.FS

// Prefix is where Handler expects to be mounted.
const Prefix = "/static/"

// ErrNotBuilt is returned by Check when the vendored files are missing.
var ErrNotBuilt = errors.New("static: browser libraries are missing; run `make assets` (static/build.sh) and build again")

// Vendored files the console cannot live without.
var required = []string{"htmx.min.js", "idiomorph-ext.min.js"}

// asset is one file as it is served.
type asset struct {
	name string // logical name: app.css
	url  string // /static/app.3f9a1c2b.css
	body []byte
	kind string // content type
}

// catalogue maps logical and hashed names to assets.
type catalogue struct {
	byName map[string]*asset
	byHash map[string]*asset
}

var assets = mustLoad(files)

// Check reports ErrNotBuilt when the build had no vendored files.
func Check() error { return assets.check() }

// URL returns the address of a file by its logical name ("app.css", "live.js",
// "inter-latin.woff2"). A name that does not exist gives a URL that answers 404.
func URL(name string) string {
	if a, ok := assets.byName[name]; ok {
		return a.url
	}
	return Prefix + name
}

// Handler serves the files below Prefix. Hashed names are immutable; logical ones
// have to be revalidated.
func Handler() http.Handler { return assets }

// ServeHTTP implements http.Handler.
func (c *catalogue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, Prefix)
	a, hashed := c.byHash[name]
	if !hashed {
		a = c.byName[name]
	}
	if a == nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("ETag", `"`+strings.TrimPrefix(a.url, Prefix)+`"`)
	if hashed {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	if r.Header.Get("If-None-Match") == h.Get("ETag") {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", fmt.Sprint(len(a.body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(a.body) // the client left: nobody to tell
	}
}

func (c *catalogue) check() error {
	for _, name := range required {
		if _, ok := c.byName[name]; !ok {
			return fmt.Errorf("%w (%s)", ErrNotBuilt, name)
		}
	}
	return nil
}

func mustLoad(fsys fs.FS) *catalogue {
	c, err := load(fsys)
	if err != nil {
		panic(err) // the embedded files cannot be read: the binary is broken
	}
	return c
}

// load reads every file, joins css/*.css into app.css in name order, and points
// url() references at hashed names.
func load(fsys fs.FS) (*catalogue, error) {
	c := &catalogue{byName: map[string]*asset{}, byHash: map[string]*asset{}}
	for _, dir := range []string{"dist", "img", "js"} {
		if err := c.addDir(fsys, dir); err != nil {
			return nil, err
		}
	}
	sheet, err := joinStyles(fsys)
	if err != nil {
		return nil, err
	}
	c.add("app.css", c.resolveURLs(sheet))
	return c, nil
}

func (c *catalogue) addDir(fsys fs.FS, dir string) error {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		body, err := fs.ReadFile(fsys, path.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		c.add(e.Name(), body)
	}
	return nil
}

func (c *catalogue) add(name string, body []byte) {
	sum := sha256.Sum256(body)
	ext := path.Ext(name)
	hashed := strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:5]) + ext
	a := &asset{name: name, url: Prefix + hashed, body: body, kind: contentType(ext)}
	c.byName[name], c.byHash[hashed] = a, a
}

// contentType does not ask the operating system for what every system agrees on.
func contentType(ext string) string {
	switch ext {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".woff2":
		return "font/woff2"
	case ".svg":
		return "image/svg+xml"
	}
	if kind := mime.TypeByExtension(ext); kind != "" {
		return kind
	}
	return "application/octet-stream"
}

func joinStyles(fsys fs.FS) ([]byte, error) {
	names, err := fs.Glob(fsys, "css/*.css")
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	var sheet []byte
	for _, name := range names {
		body, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		sheet = append(sheet, body...)
		sheet = append(sheet, '\n')
	}
	return sheet, nil
}

var cssURL = regexp.MustCompile(`url\("([a-z0-9.-]+)"\)`)

// resolveURLs rewrites url("inter-latin.woff2") to its hashed address.
func (c *catalogue) resolveURLs(sheet []byte) []byte {
	return cssURL.ReplaceAllFunc(sheet, func(m []byte) []byte {
		a, ok := c.byName[string(cssURL.FindSubmatch(m)[1])]
		if !ok {
			return m
		}
		return []byte(`url("` + a.url + `")`)
	})
}
