package views

import (
	"context"
	"strconv"
	"time"

	"fusebox/views/components"
)

// WebhookRow is one line of the webhook log.
type WebhookRow struct {
	ID         int64
	Provider   string
	EventKey   string // empty on rejected and unparsed rows
	Type       string
	Reference  string
	Signature  string
	State      string
	Reason     string
	PaymentID  string // empty: none linked
	Duplicates int
	ReceivedAt time.Time
	AppliedAt  *time.Time
}

// WebhookFilter holds the log's filter form as typed, and its choices.
type WebhookFilter struct {
	State, Provider, Signature, Text string
	Type                             string
	Duplicates                       bool
	Providers, Signatures            []string
	Active                           bool
}

// WebhooksView is the webhook log.
type WebhooksView struct {
	Page   Page
	Tabs   TabsView
	Filter WebhookFilter
	Clear  string
	// Silences are the providers that used to send events and take charges without.
	Silences []WebhookSilence
	Bulk     BulkBar
	List     WebhookListView
}

// WebhookSilence is a provider that sends no events any more.
type WebhookSilence struct {
	Provider string
	Last     time.Time
}

// WebhookListView is the part of the log that moves by itself.
type WebhookListView struct {
	Live     components.LiveRegion
	Rows     []WebhookRow
	Pages    components.Pages
	Filtered bool
}

// WebhookView is one inbox row in full.
type WebhookView struct {
	Page        Page
	Row         WebhookRow
	ObjectID    string
	SecretLabel string
	Tries       int
	OccurredAt  *time.Time
	LastAt      time.Time
	Headers     []Header
	Body        string // redacted, indented when it is JSON; hostile text
	BodyCut     bool
	Effects     []PaymentMoment
	Reapply     *ActionLink // nil: nothing to apply
	Steps       []WebhookStep
	Others      []WebhookRow // other deliveries about the same thing
}

// WebhookStep is a status the event moved: before → after.
type WebhookStep struct{ Label, From, To string }

// Header is one stored request header.
type Header struct{ Name, Value string }

func webhookTone(state string) components.Tone {
	switch state {
	case "applied":
		return components.ToneOK
	case "received":
		return components.ToneInfo
	case "unmatched":
		return components.ToneWarn
	case "rejected", "unparsed":
		return components.ToneBad
	}
	return components.ToneIdle
}

func webhookIcon(state string) string {
	switch state {
	case "applied":
		return "check"
	case "received":
		return "clock"
	case "ignored":
		return "arrow"
	}
	return "warn"
}

func eventName(ctx context.Context, r WebhookRow) string {
	if r.Type == "" {
		return T(ctx, "webhooks.no_type")
	}
	return r.Type
}

func signatureOptions(ctx context.Context, verdicts []string) []components.Option {
	out := []components.Option{{Value: "", Label: T(ctx, "ui.any")}}
	for _, v := range verdicts {
		out = append(out, components.Option{Value: v, Label: Opt(ctx, "webhook.signature.", v)})
	}
	return out
}

func repeatsValue(on bool) string {
	if on {
		return "1"
	}
	return ""
}

func webhookTerms(ctx context.Context, v WebhookView) []components.Term {
	r := v.Row
	terms := []components.Term{
		{Label: T(ctx, "webhook.key"), Value: r.EventKey, Mono: true, Copy: true},
		{Label: T(ctx, "webhook.type"), Value: r.Type, Mono: true},
		{Label: T(ctx, "webhooks.col.provider"), Value: r.Provider},
		{Label: T(ctx, "webhooks.col.signature"), Body: signatureBadge(r.Signature)},
		{Label: T(ctx, "webhook.secret"), Value: secretWords(ctx, v.SecretLabel)},
		{Label: T(ctx, "webhook.object"), Value: v.ObjectID, Mono: true, Copy: true},
		{Label: T(ctx, "webhook.reference"), Value: r.Reference, Mono: true, Copy: true},
		{Label: T(ctx, "webhook.reason"), Value: Opt(ctx, "reason.", r.Reason)},
		{Label: T(ctx, "webhook.received"), Body: components.Absolute(r.ReceivedAt)},
		{Label: T(ctx, "webhook.duplicates"), Value: strconv.Itoa(r.Duplicates)},
		{Label: T(ctx, "webhook.last"), Body: components.Absolute(v.LastAt)},
		{Label: T(ctx, "webhook.tries"), Value: strconv.Itoa(v.Tries)},
	}
	if v.OccurredAt != nil {
		terms = append(terms, components.Term{Label: T(ctx, "webhook.occurred"), Body: components.Absolute(*v.OccurredAt)})
	}
	if r.AppliedAt != nil {
		terms = append(terms, components.Term{Label: T(ctx, "webhook.applied"),
			Body: timeWithNote(*r.AppliedAt, latencyBetween(ctx, &r.ReceivedAt, r.AppliedAt))})
	}
	return nonEmpty(terms)
}

func secretWords(ctx context.Context, label string) string {
	switch label {
	case "":
		return ""
	case "1":
		return T(ctx, "webhook.secret_newest")
	}
	return T(ctx, "webhook.secret_old", "N", label)
}

func headerTerms(headers []Header) []components.Term {
	out := make([]components.Term, 0, len(headers))
	for _, h := range headers {
		out = append(out, components.Term{Label: h.Name, Value: h.Value, Mono: true})
	}
	return out
}
