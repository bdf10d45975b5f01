package messages

import (
	"context"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/bojanz/currency"
	"golang.org/x/text/language"
	xmessage "golang.org/x/text/message"
)

// nbsp keeps a number and its unit on one line.
const nbsp = "\u00a0"

var (
	printers  = map[Lang]*xmessage.Printer{}
	formatter = map[Lang]*currency.Formatter{}
)

func init() {
	for _, l := range Langs {
		printers[l] = xmessage.NewPrinter(language.Make(string(l)))
		f := currency.NewFormatter(currency.NewLocale(string(l)))
		f.CurrencyDisplay = currency.DisplayNone
		formatter[l] = f
	}
}

// Num prints an integer with the locale's grouping: 12,480 or 12 480.
func Num(ctx context.Context, n int64) string {
	return printers[From(ctx).Lang].Sprintf("%d", n)
}

// Percent prints a share between 0 and 1 with at most one decimal: 99.4%. It never
// rounds a share below 1 up to 100%, nor one above 0 down to 0%.
func Percent(ctx context.Context, share float64) string {
	tenths := int64(share*1000 + 0.5)
	if share < 1 && tenths >= 1000 {
		tenths = 999
	}
	if share > 0 && tenths <= 0 {
		tenths = 1
	}
	p := printers[From(ctx).Lang]
	if tenths%10 == 0 {
		return p.Sprintf("%d", tenths/10) + nbsp + "%"
	}
	return p.Sprintf("%.1f", float64(tenths)/10) + nbsp + "%"
}

// Money prints an amount in minor units with the currency's ISO 4217 exponent, the
// locale's digits and the ISO code: 49.00 EUR, 49,00 EUR, 4 900 JPY.
func Money(ctx context.Context, amount int64, code string) string {
	return Amount(ctx, amount, code) + nbsp + code
}

// Amount is Money without the code, for cells that show it apart. A currency that
// is not in ISO 4217 is printed as plain minor units: better odd than wrong.
func Amount(ctx context.Context, amount int64, code string) string {
	if !currency.IsValid(code) {
		return strconv.FormatInt(amount, 10)
	}
	a, err := currency.NewAmountFromBigInt(big.NewInt(amount), code)
	if err != nil {
		return strconv.FormatInt(amount, 10)
	}
	return formatter[From(ctx).Lang].Format(a)
}

// Absolute prints date, time and zone: 2026-03-01 14:02:11 CET. The order is the
// same in every language, so nobody confuses day and month.
func Absolute(ctx context.Context, t time.Time) string {
	return t.In(From(ctx).Zone).Format("2006-01-02 15:04:05 MST")
}

// Clock prints the time alone for today, with the date otherwise.
func Clock(ctx context.Context, t time.Time) string {
	l := From(ctx)
	local, now := t.In(l.Zone), l.Now.In(l.Zone)
	if local.YearDay() == now.YearDay() && local.Year() == now.Year() {
		return local.Format("15:04:05")
	}
	return local.Format("2006-01-02 15:04")
}

// Relative prints how far t is from now: "3 min ago", "in 40 s".
func Relative(ctx context.Context, t time.Time) string {
	d := From(ctx).Now.Sub(t)
	if d < 0 {
		return T(ctx, "time.in", "Span", Span(ctx, -d))
	}
	return T(ctx, "time.ago", "Span", Span(ctx, d))
}

// Span prints a duration in its largest sensible unit, rounded down: 40 s, 3 min,
// 5 h, 2 d. live.js prints the same from the same patterns (see Patterns).
func Span(ctx context.Context, d time.Duration) string {
	n, unit := spanUnit(d)
	return strconv.FormatInt(n, 10) + nbsp + T(ctx, unit)
}

func spanUnit(d time.Duration) (int64, string) {
	s := int64(d / time.Second)
	switch {
	case s < 60:
		return s, "time.unit.second"
	case s < 60*60:
		return s / 60, "time.unit.minute"
	case s < 48*60*60:
		return s / 3600, "time.unit.hour"
	}
	return s / 86400, "time.unit.day"
}

// Latency prints a call's duration: 84 ms, 1.2 s.
func Latency(ctx context.Context, d time.Duration) string {
	p := printers[From(ctx).Lang]
	if d < time.Second {
		return p.Sprintf("%d", d.Milliseconds()) + nbsp + T(ctx, "time.unit.millisecond")
	}
	return p.Sprintf("%.1f", d.Seconds()) + nbsp + T(ctx, "time.unit.second")
}

// Bounded prints a count that was not counted beyond limit: "10,000+".
func Bounded(ctx context.Context, n, limit int64) string {
	if n >= limit {
		return Num(ctx, limit) + "+"
	}
	return Num(ctx, n)
}

// Patterns returns what the browser needs to keep relative times current.
func Patterns(ctx context.Context) map[string]string {
	return map[string]string{
		"ago": T(ctx, "time.ago", "Span", "%"),
		"in":  T(ctx, "time.in", "Span", "%"),
		"s":   T(ctx, "time.unit.second"),
		"m":   T(ctx, "time.unit.minute"),
		"h":   T(ctx, "time.unit.hour"),
		"d":   T(ctx, "time.unit.day"),
	}
}

// Join puts a list into one line with the locale's comma; empty items are dropped.
func Join(items ...string) string {
	kept := items[:0:0]
	for _, i := range items {
		if i != "" {
			kept = append(kept, i)
		}
	}
	return strings.Join(kept, ", ")
}
