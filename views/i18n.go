// Package views holds the console's pages as templ components, each with its view
// model beside it. Shared pieces live in views/components, texts in views/messages.
package views

import (
	"context"
	"time"

	"fusebox/views/messages"
)

// Locale is how one reader wants to read: language, time zone, the page's "now".
type Locale = messages.Locale

// WithLocale returns a context in which every component speaks l.
func WithLocale(ctx context.Context, l Locale) context.Context { return messages.With(ctx, l) }

// T returns the text with that id; args are name, value pairs for its placeholders.
func T(ctx context.Context, id string, args ...any) string { return messages.T(ctx, id, args...) }

// N returns the text with that id in the plural form of n; {{.N}} is n.
func N(ctx context.Context, id string, n int64, args ...any) string {
	return messages.N(ctx, id, n, args...)
}

// Opt returns the text prefix+value, or the value made readable when there is none.
func Opt(ctx context.Context, prefix, value string, args ...any) string {
	return messages.Opt(ctx, prefix, value, args...)
}

// Num prints an integer with the locale's grouping.
func Num(ctx context.Context, n int64) string { return messages.Num(ctx, n) }

// Money prints an amount of minor units with the ISO code: 49.00 EUR.
func Money(ctx context.Context, amount int64, currency string) string {
	return messages.Money(ctx, amount, currency)
}

// Relative prints how far t is from now: 3 min ago.
func Relative(ctx context.Context, t time.Time) string { return messages.Relative(ctx, t) }

// Absolute prints date, time and zone.
func Absolute(ctx context.Context, t time.Time) string { return messages.Absolute(ctx, t) }
