package views

import (
	"context"
	"time"

	"github.com/a-h/templ"

	"fusebox/views/components"
	"fusebox/views/messages"
)

// PaymentRow is one line of a payments list. Amount is in minor units.
type PaymentRow struct {
	ID        string
	OrderRef  string
	Customer  string
	Provider  string
	Status    string
	Reason    string // machine-readable, e.g. timeout_after_send
	Review    []string
	Amount    int64
	Currency  string
	CreatedAt time.Time
	NextAt    *time.Time // when something looks at it again
	NextWhy   string
	Notes     int // people wrote so many
}

// PaymentFilter holds the filter form as typed, and its choices.
type PaymentFilter struct {
	Status, Review, Provider, Currency, From, To, Text, Amount string
	Order, Reason, Min, Max                                    string
	Providers, Currencies, Reviews, Reasons                    []string
	Errors                                                     map[string]string // field → what is wrong, translated
	Active                                                     bool              // anything beyond the status tab is set
}

// PaymentsView is the payments list.
type PaymentsView struct {
	Page   Page
	Tabs   TabsView
	Filter PaymentFilter
	Export templ.SafeURL
	Clear  templ.SafeURL
	Bulk   BulkBar
	List   PaymentListView
}

// PaymentListView is the part of the list that moves by itself.
type PaymentListView struct {
	Live  components.LiveRegion
	Rows  []PaymentRow
	Pages components.Pages
	// Newer counts payments that came after the page was opened; they wait behind Show.
	Newer int64
	Show  templ.SafeURL
	// Filtered: there may be payments outside the filter, so an empty list is the filter's doing.
	Filtered bool
}

// options turns plain values into a select's choices, led by "any".
func options(ctx context.Context, values []string) []components.Option {
	out := []components.Option{{Value: "", Label: T(ctx, "ui.any")}}
	for _, v := range values {
		out = append(out, components.Option{Value: v, Label: v})
	}
	return out
}

func reviewOptions(ctx context.Context, reasons []string) []components.Option {
	out := []components.Option{{Value: "", Label: T(ctx, "ui.any")}, {Value: "any", Label: T(ctx, "payments.filter.review_any")}}
	for _, r := range reasons {
		out = append(out, components.Option{Value: r, Label: Opt(ctx, "review.", r)})
	}
	return out
}

func reasonOptions(ctx context.Context, reasons []string) []components.Option {
	out := []components.Option{{Value: "", Label: T(ctx, "ui.any")}}
	for _, r := range reasons {
		out = append(out, components.Option{Value: r, Label: Opt(ctx, "reason.", r)})
	}
	return out
}

// rare reports whether a filter that is folded away by default is set or wrong.
func (f PaymentFilter) rare() bool {
	wrong := f.Errors["min"] + f.Errors["max"] + f.Errors["order"] + f.Errors["reason"] + f.Errors["from"] + f.Errors["to"]
	return f.Order+f.Reason+f.Min+f.Max+f.From+f.To+wrong != ""
}

func filterErrors(f PaymentFilter) []components.FieldError {
	var out []components.FieldError
	for _, field := range []string{"status", "review", "provider", "currency", "from", "to", "text", "amount",
		"order", "reason", "min", "max", "after"} {
		if msg := f.Errors[field]; msg != "" {
			out = append(out, components.FieldError{FieldID: "f-" + field, Text: msg})
		}
	}
	return out
}

// TabsView is a list's tabs; their counts move by themselves.
type TabsView struct {
	Live components.LiveRegion
	Tabs []components.Tab
}

// waitsForCircuit reports whether the payment waits for a moment a circuit gave it.
func (r PaymentRow) waitsForCircuit(ctx context.Context) bool {
	return r.NextWhy == "circuit_open" && r.NextAt != nil && r.NextAt.After(messages.From(ctx).Now)
}
