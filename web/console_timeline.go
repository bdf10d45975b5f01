package web

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// timelineQuery reads which part of the timeline an address asks for.
func timelineQuery(q url.Values) (store.TimelineQuery, error) {
	out := store.TimelineQuery{Who: q.Get("who")}
	if out.Who != "" && !slices.Contains(voices, out.Who) {
		return out, invalid("who", "must be people, provider or engine")
	}
	if text := q.Get("before"); text != "" {
		at, ok := store.ParseTimelineCursor(text)
		if !ok {
			return out, invalid("before", "is no place in a timeline")
		}
		out.Before = &at
	}
	return out, nil
}

var voices = []string{store.VoicePeople, store.VoiceProvider, store.VoiceEngine}

// storyView is how the timeline can be read otherwise.
func storyView(ctx context.Context, d store.Dossier, q store.TimelineQuery) views.StoryView {
	path := views.PaymentPath(d.Payment.ID.String())
	v := views.StoryView{Filtered: q.Who != "", Notes: d.Notes, Note: templ.SafeURL(path + "/note"), Evidence: templ.SafeURL(path + "/evidence"),
		Voices: []components.Tab{{Label: views.T(ctx, "timeline.voice.all"), Href: storyPath(path, "", ""), Current: q.Who == ""}}}
	for _, who := range voices {
		v.Voices = append(v.Voices, components.Tab{Label: views.Opt(ctx, "timeline.voice.", who), Href: storyPath(path, who, ""), Current: q.Who == who})
	}
	if d.Earlier != nil {
		v.Earlier = storyPath(path, q.Who, d.Earlier.String())
	}
	if q.Before != nil {
		v.Newest = storyPath(path, q.Who, "")
	}
	return v
}

func storyPath(path, who, before string) templ.SafeURL {
	q := url.Values{}
	if who != "" {
		q.Set("who", who)
	}
	if before != "" {
		q.Set("before", before)
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return templ.SafeURL(path + "#timeline-title")
}

// timeline merges the payment's own events with the deliveries of its webhooks, and
// ends with what happens next.
func timeline(d store.Dossier, v views.PaymentDetail) []views.PaymentMoment {
	var out []views.PaymentMoment
	attempts := slices.Clone(v.Attempts)
	for _, r := range v.Refunds.Rows {
		attempts = append(attempts, r.Attempts...)
	}
	for _, r := range v.Capture.Rows {
		attempts = append(attempts, r.Attempts...)
	}
	for _, e := range d.Events {
		m := moment(e, d.Names, attempts)
		m.Child = childMoment(d, e)
		out = append(out, m)
	}
	for _, e := range d.Received {
		row := webhookRow(e)
		out = append(out, views.PaymentMoment{ID: "inbox-" + strconv.FormatInt(e.ID, 10), At: e.ReceivedAt,
			Kind: "webhook_received", WhoKind: "provider", Who: e.Provider, Webhook: &row})
	}
	slices.SortStableFunc(out, func(a, b views.PaymentMoment) int { return a.At.Compare(b.At) })
	out = append(out, nextOfRefunds(d)...)
	p := d.Payment
	if p.NextCheckAt == nil || p.Status.Final() {
		return out
	}
	next := views.PaymentMoment{ID: "next", At: *p.NextCheckAt, Future: true, FutureWhat: "check"}
	switch p.Status {
	case store.Pending:
		next.FutureWhat = "send"
	case store.RequiresAction:
		next.FutureWhat = "customer"
	}
	return append(out, next)
}

// moment is one stored event of a payment.
func moment(e store.TimelineEvent, names map[string]string, attempts []views.AttemptView) views.PaymentMoment {
	kind, _, _ := strings.Cut(e.Actor, ":")
	m := views.PaymentMoment{ID: "event-" + strconv.FormatInt(e.ID, 10), At: e.At, Kind: e.Kind, WhoKind: kind,
		Who: names[e.Actor], From: string(e.FromStatus), To: string(e.ToStatus), Reason: e.Reason}
	if action := e.Evidence["action"]; e.Kind == "operator" && action == "reconcile" || e.Kind == "refund_operator" && action == "lookup" {
		m.Kind = "asked"
	}
	if e.Reason == "" {
		m.Reason = evidenceWhy(e)
	}
	if e.AttemptID != nil && strings.HasSuffix(e.Kind, "attempt_finished") {
		for i := range attempts {
			if attempts[i].ID == e.AttemptID.String() {
				m.Attempt = &attempts[i]
			}
		}
	}
	m.Note, _ = e.Evidence["note"].(string)
	if len(e.Evidence) > 0 {
		raw, err := json.MarshalIndent(e.Evidence, "", "  ")
		if err == nil { // a map that came from JSON always marshals
			m.Evidence = string(raw)
		}
	}
	return m
}

// evidenceWhy finds the reason of an event that moved nothing: what it waits for, what
// a lookup said.
func evidenceWhy(e store.TimelineEvent) string {
	for _, key := range []string{"why", "reason"} {
		if v, ok := e.Evidence[key].(string); ok {
			return v
		}
	}
	return ""
}
