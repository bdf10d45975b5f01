// Package messages holds every text of the console in its four languages, and the
// locale-aware printing of numbers, money and times. Texts live in
// <area>.<lang>.json with flat dotted ids; a test fails when a language lacks a
// key, a plural form or a placeholder, or when no source uses it.
//
// It is a package of its own so that both views and views/components can use it;
// pages call it through the short names in package views.
package messages

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"
)

//go:embed *.json
var files embed.FS

// Lang is a language of the console, as in <html lang>.
type Lang string

// Languages of the console.
const (
	English   Lang = "en"
	French    Lang = "fr"
	Spanish   Lang = "es"
	Ukrainian Lang = "uk"
)

// Langs lists the languages in the order switches show them.
var Langs = []Lang{English, French, Spanish, Ukrainian}

// OwnName is what speakers call the language.
func (l Lang) OwnName() string {
	switch l {
	case French:
		return "Français"
	case Spanish:
		return "Español"
	case Ukrainian:
		return "Українська"
	}
	return "English"
}

// Locale is how one reader wants to read.
type Locale struct {
	Lang Lang
	Zone *time.Location // of every time shown; nil: UTC
	Now  time.Time      // the page's one "now", for relative times; zero: the wall clock
	// Theme is light or dark by choice, or empty to follow the device.
	Theme string
}

type localeKey struct{}

// With returns a context in which T, N and the formatters use l.
func With(ctx context.Context, l Locale) context.Context {
	if l.Zone == nil {
		l.Zone = time.UTC
	}
	if _, ok := localizers[l.Lang]; !ok {
		l.Lang = English
	}
	return context.WithValue(ctx, localeKey{}, l)
}

// From returns the context's locale: English and UTC unless With said otherwise.
func From(ctx context.Context) Locale {
	l, ok := ctx.Value(localeKey{}).(Locale)
	if !ok {
		l = Locale{Lang: English, Zone: time.UTC}
	}
	if l.Now.IsZero() {
		l.Now = time.Now()
	}
	return l
}

// Negotiate picks a language: the first of the given wishes (a person's setting, a
// cookie) that we speak, then the best of an Accept-Language header, then English.
func Negotiate(acceptLanguage string, wishes ...string) Lang {
	for _, w := range wishes {
		if _, ok := localizers[Lang(w)]; ok {
			return Lang(w)
		}
	}
	tags, _, err := language.ParseAcceptLanguage(acceptLanguage)
	if err != nil || len(tags) == 0 {
		return English
	}
	_, i, confidence := matcher.Match(tags...)
	if confidence == language.No {
		return English
	}
	return Langs[i]
}

// T returns the text with that id. args are name, value pairs for its {{.Name}}
// placeholders. An id that does not exist is returned as it is: visible, not fatal.
func T(ctx context.Context, id string, args ...any) string {
	return localize(ctx, &i18n.LocalizeConfig{MessageID: id, TemplateData: pairs(args)}, id)
}

// N returns the text with that id in the plural form of n; {{.N}} is n with the
// locale's grouping.
func N(ctx context.Context, id string, n int64, args ...any) string {
	data := pairs(append([]any{"N", Num(ctx, n)}, args...))
	return localize(ctx, &i18n.LocalizeConfig{MessageID: id, PluralCount: n, TemplateData: data}, id)
}

// Opt returns the text prefix+value for values that come from outside the source
// (statuses, reasons, alert kinds). Without such a text it returns the value with
// underscores as spaces, so a new reason is readable before it is translated.
func Opt(ctx context.Context, prefix, value string, args ...any) string {
	cfg := &i18n.LocalizeConfig{MessageID: prefix + value, TemplateData: pairs(args)}
	return localize(ctx, cfg, strings.ReplaceAll(value, "_", " "))
}

// Has reports whether there is a text with that id.
func Has(id string) bool {
	_, err := localizers[English].Localize(&i18n.LocalizeConfig{MessageID: id})
	return err == nil
}

func localize(ctx context.Context, cfg *i18n.LocalizeConfig, fallback string) string {
	// A missing rare plural form comes back as an error together with the "other" text.
	text, _ := localizers[From(ctx).Lang].Localize(cfg)
	if text == "" {
		return fallback
	}
	return text
}

func pairs(args []any) map[string]any {
	data := make(map[string]any, len(args)/2)
	for i := 0; i+1 < len(args); i += 2 {
		data[fmt.Sprint(args[i])] = args[i+1]
	}
	return data
}

var (
	localizers = mustLoad()
	matcher    = language.NewMatcher(tags())
)

func tags() []language.Tag {
	out := make([]language.Tag, len(Langs))
	for i, l := range Langs {
		out[i] = language.Make(string(l))
	}
	return out
}

// mustLoad reads the embedded files; a file that does not parse is a broken build.
func mustLoad() map[Lang]*i18n.Localizer {
	bundle := i18n.NewBundle(language.English)
	names, err := fs.Glob(files, "*.json")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		if _, err := bundle.LoadMessageFileFS(files, name); err != nil {
			panic(fmt.Errorf("messages: %s: %w", name, err))
		}
	}
	out := make(map[Lang]*i18n.Localizer, len(Langs))
	for _, l := range Langs {
		out[l] = i18n.NewLocalizer(bundle, string(l))
	}
	return out
}
