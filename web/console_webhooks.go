package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// signatureVerdicts in the order the filter shows them.
var signatureVerdicts = []string{provider.SignatureValid, provider.SignatureInvalid, provider.SignatureMissing,
	provider.SignatureTooOld, provider.SignatureInFuture}

// inboxQuery is the log's address, read.
type inboxQuery struct {
	form   views.WebhookFilter
	filter store.InboxFilter
	before int64
	values url.Values // the filter without the page
}

// readInboxQuery reads the log's filters. An unreadable one is refused (422).
func (s *Server) readInboxQuery(q url.Values) (inboxQuery, error) {
	f := views.WebhookFilter{State: q.Get("state"), Provider: q.Get("provider"), Signature: q.Get("signature"),
		Text: strings.TrimSpace(q.Get("text")), Type: strings.TrimSpace(q.Get("type")), Duplicates: q.Get("repeats") == "1",
		Providers: s.providerNames(), Signatures: signatureVerdicts}
	var bad fieldErrors
	refuse := func(field, value string, allowed []string) {
		if value != "" && !slices.Contains(allowed, value) {
			bad = append(bad, fieldError{field, "is not one of the choices"})
		}
	}
	refuse("state", f.State, store.InboxStates)
	refuse("provider", f.Provider, f.Providers)
	refuse("signature", f.Signature, signatureVerdicts)
	if tooLong(f.Text) {
		bad = append(bad, fieldError{"text", "is longer than 200 characters"})
	}
	if tooLong(f.Type) {
		bad = append(bad, fieldError{"type", "is longer than 200 characters"})
	}
	before, err := pageNumber(q.Get("before"))
	if err != nil {
		bad = append(bad, fieldError{"before", "is not a page"})
	}
	if len(bad) > 0 {
		return inboxQuery{}, bad
	}
	f.Active = f.Provider+f.Signature+f.Text+f.Type != "" || f.Duplicates
	values := url.Values{}
	for name, v := range map[string]string{"state": f.State, "provider": f.Provider, "signature": f.Signature, "text": f.Text,
		"type": f.Type} {
		values = with(values, name, v)
	}
	if f.Duplicates {
		values.Set("repeats", "1")
	}
	return inboxQuery{form: f, before: before, values: values, filter: store.InboxFilter{State: f.State,
		Provider: f.Provider, Signature: f.Signature, Text: f.Text, Type: f.Type, Duplicated: f.Duplicates, Known: f.Providers}}, nil
}

// pageNumber reads a keyset of numbered rows; empty is the top.
func pageNumber(v string) (int64, error) {
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 {
		return 0, errors.New("not a page")
	}
	return n, nil
}

// webhookLogPage answers the log, whole or its live part.
func (s *Server) webhookLogPage(c echo.Context) error {
	q, err := s.readInboxQuery(c.QueryParams())
	if err != nil {
		return err
	}
	c.Response().Header().Add(echo.HeaderVary, "HX-Request")
	build := func(ctx context.Context, rev string) (views.WebhookListView, error) {
		return s.webhookList(ctx, q, region(c, "webhook-list", store.TopicWebhooks, rev))
	}
	if isHTMX(c) {
		return s.fragment(c, store.TopicWebhooks, func(ctx context.Context, rev string) (templ.Component, error) {
			v, err := build(ctx, rev)
			return views.WebhookList(v), err
		})
	}
	ctx := s.viewContext(c)
	rev := s.a.hub.rev(store.TopicWebhooks)
	tabs, err := s.webhookTabs(ctx, q, rev)
	if err != nil {
		return err
	}
	list, err := build(ctx, rev)
	if err != nil {
		return err
	}
	silences, err := s.cfg.Store.WebhookSilences(ctx)
	if err != nil {
		return err
	}
	bar := views.BulkBar{Action: views.PathWebhooks + "/bulk", Filter: hiddenFields(q.values), Recent: views.PathBulk, Max: store.BulkMax,
		Selected: views.T(ctx, "bulk.reapply_selected"), All: views.T(ctx, "bulk.reapply_all"), Needs: s.needsOperator(c)}
	return s.render(c, http.StatusOK, views.Webhooks(views.WebhooksView{
		Page: s.page(c, "webhooks", views.T(ctx, "webhooks.title")), Tabs: tabs, Filter: q.form, Silences: silenceViews(silences), Bulk: bar,
		Clear: string(address(views.PathWebhooks, with(nil, "state", q.form.State))), List: list}))
}

// webhookLogTabs answers the live tabs.
func (s *Server) webhookLogTabs(c echo.Context) error {
	q, err := s.readInboxQuery(c.QueryParams())
	if err != nil {
		return err
	}
	return s.fragment(c, store.TopicWebhooks, func(ctx context.Context, rev string) (templ.Component, error) {
		v, err := s.webhookTabs(ctx, q, rev)
		return views.WebhookTabs(v), err
	})
}

func (s *Server) webhookTabs(ctx context.Context, q inboxQuery, rev string) (views.TabsView, error) {
	counts, err := s.cfg.Store.CountWebhooks(ctx, q.filter)
	return views.TabsView{Tabs: webhookTabs(ctx, q, counts), Live: components.LiveRegion{ID: "webhook-tabs",
		Topic: store.TopicWebhooks, URL: string(address(views.PathWebhooks+"/tabs", q.values)), Rev: rev}}, err
}

func webhookTabs(ctx context.Context, q inboxQuery, counts store.InboxCounts) []components.Tab {
	count := func(state string) string {
		if counts.ByState == nil {
			return ""
		}
		text := messages.Bounded(ctx, int64(counts.ByState[state]), store.CountCap)
		if counts.AtLeast && counts.ByState[state] <= store.CountCap {
			text += "+"
		}
		return text
	}
	tabs := []components.Tab{{Label: views.T(ctx, "webhooks.tab.all"), Current: q.form.State == "",
		Href: address(views.PathWebhooks, with(q.values, "state", "")), Count: count("")}}
	for _, st := range store.InboxStates {
		tabs = append(tabs, components.Tab{Label: views.Opt(ctx, "webhook.state.", st), Current: q.form.State == st,
			Href: address(views.PathWebhooks, with(q.values, "state", st)), Count: count(st)})
	}
	return tabs
}

func silenceViews(silences []store.Silence) (out []views.WebhookSilence) {
	for _, x := range silences {
		out = append(out, views.WebhookSilence{Provider: x.Provider, Last: x.Last})
	}
	return out
}

func (s *Server) webhookList(ctx context.Context, q inboxQuery, live components.LiveRegion) (views.WebhookListView, error) {
	events, more, err := s.cfg.Store.ListWebhooks(ctx, q.filter, q.before, rowsPerPage)
	if err != nil {
		return views.WebhookListView{}, err
	}
	v := views.WebhookListView{Live: live, Filtered: len(q.values) > 0}
	for _, e := range events {
		v.Rows = append(v.Rows, webhookRow(e))
	}
	if more {
		v.Pages.Older = address(views.PathWebhooks, with(q.values, "before", strconv.FormatInt(events[len(events)-1].ID, 10)))
	}
	if q.before > 0 {
		v.Pages.Newer = address(views.PathWebhooks, q.values)
	}
	return v, nil
}

func webhookRow(e store.InboxEvent) views.WebhookRow {
	r := views.WebhookRow{ID: e.ID, Provider: e.Provider, EventKey: e.EventKey, Type: e.EventType, Reference: e.Reference,
		Signature: e.Signature, State: e.State, Reason: e.StateReason, Duplicates: e.Duplicates, ReceivedAt: e.ReceivedAt, AppliedAt: e.AppliedAt}
	if e.PaymentID != nil {
		r.PaymentID = e.PaymentID.String()
	}
	return r
}

// inboxParam reads the event the path names.
func (s *Server) inboxParam(c echo.Context) (store.InboxEvent, error) {
	id, err := pageNumber(c.Param("id"))
	if err != nil || id == 0 {
		return store.InboxEvent{}, store.ErrNotFound
	}
	return s.cfg.Store.InboxEvent(c.Request().Context(), id)
}

// relatedEvents is how many other deliveries about the same thing a page shows.
const relatedEvents = 20

// webhookPage answers one event in full.
func (s *Server) webhookPage(c echo.Context) error {
	e, err := s.inboxParam(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	effects, err := s.cfg.Store.WebhookEffects(ctx, e)
	if err != nil {
		return err
	}
	v := views.WebhookView{Page: s.page(c, "webhooks", views.T(ctx, "webhook.title", "Id", strconv.FormatInt(e.ID, 10))),
		Row: webhookRow(e), ObjectID: e.ObjectID, SecretLabel: e.SecretLabel, Tries: e.Tries, OccurredAt: e.OccurredAt,
		LastAt: e.LastDeliveryAt, Headers: shownHeaders(e.Headers), Body: pretty(provider.Redact(e.Raw)), BodyCut: len(e.Raw) > shownBody}
	for _, ev := range effects {
		v.Effects = append(v.Effects, moment(ev, nil, nil))
		if ev.FromStatus != ev.ToStatus {
			v.Steps = append(v.Steps, views.WebhookStep{Label: views.T(ctx, "webhook.step"), From: string(ev.FromStatus), To: string(ev.ToStatus)})
		}
	}
	others, err := s.cfg.Store.RelatedWebhooks(ctx, e, relatedEvents)
	if err != nil {
		return err
	}
	for _, o := range others {
		v.Others = append(v.Others, webhookRow(o))
	}
	if reappliable(e) {
		v.Reapply = &views.ActionLink{Label: "webhook.act.reapply", Href: views.WebhookPath(e.ID) + "/reapply", Icon: "refresh", Needs: s.needsOperator(c)}
	}
	return s.render(c, http.StatusOK, views.Webhook(v))
}

// shownHeaders lists stored headers by name, redacted like bodies.
func shownHeaders(stored map[string]any) []views.Header {
	out := make([]views.Header, 0, len(stored))
	for name, v := range stored {
		var values []string
		switch v := v.(type) {
		case string:
			values = []string{v}
		case []any:
			for _, x := range v {
				if text, ok := x.(string); ok {
					values = append(values, text)
				}
			}
		}
		out = append(out, views.Header{Name: name, Value: provider.RedactText(strings.Join(values, ", "))})
	}
	slices.SortFunc(out, func(a, b views.Header) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// reappliable: never what was not verified or cannot be read. A hint has nothing in it
// to apply; its job asks the provider.
func reappliable(e store.InboxEvent) bool {
	return !e.Hint() && (e.State == "received" || e.State == "unmatched" || e.State == "applied")
}

// confirmReapply asks before an event is processed again.
func (s *Server) confirmReapply(c echo.Context) error {
	e, err := s.inboxParam(c)
	if err != nil {
		return err
	}
	return s.renderReapply(c, http.StatusOK, e)
}

func (s *Server) renderReapply(c echo.Context, status int, e store.InboxEvent) error {
	ctx := s.viewContext(c)
	path := views.WebhookPath(e.ID)
	props := components.ConfirmProps{Title: views.T(ctx, "webhook.reapply.title"),
		Lead: views.T(ctx, "webhook.reapply.lead", "Event", or(e.EventKey, strconv.FormatInt(e.ID, 10))),
		Facts: []components.Term{
			{Label: views.T(ctx, "webhook.type"), Value: e.EventType},
			{Label: views.T(ctx, "webhooks.col.provider"), Value: e.Provider},
			{Label: views.T(ctx, "act.now"), Value: views.Opt(ctx, "webhook.state.", e.State)}},
		Action: templ.SafeURL(path + "/reapply"), Cancel: templ.SafeURL(path), ActionID: newActionID(),
		Submit: views.T(ctx, "webhook.reapply.submit")}
	if reappliable(e) {
		var err error
		if props.Consequences, props.Blocked, err = s.reapplyConsequences(ctx, e); err != nil {
			return err
		}
	} else {
		props.Blocked, props.Lead = views.T(ctx, "webhook.reapply.blocked"), ""
	}
	return s.renderConfirm(c, status, "webhooks", props.Title, props)
}

// reapplyConsequences says what processing an event again would change, by doing it and
// rolling it back. blocked: nothing can be foretold, so nothing may be done.
func (s *Server) reapplyConsequences(ctx context.Context, e store.InboxEvent) (out []components.Consequence, blocked string, err error) {
	a, ok := s.cfg.Registry.Get(e.Provider)
	if !ok {
		return nil, views.T(ctx, "bulk.skip.no_provider"), nil
	}
	r, err := s.cfg.Store.DryRunWebhook(ctx, e.ID, a.Parse)
	if store.IsContention(err) {
		return nil, views.T(ctx, "webhook.reapply.busy"), nil
	}
	if err != nil {
		return nil, "", err
	}
	if e.State == "applied" {
		return []components.Consequence{{Text: views.T(ctx, "webhook.reapply.applied")}}, "", nil
	}
	out = []components.Consequence{{Text: views.T(ctx, "webhook.reapply.one")}, {Text: views.T(ctx, "webhook.reapply.dry")}}
	switch words := expectWords(ctx, r); {
	case r.Outcome == store.OutcomeUnreadable:
		out = append(out, components.Consequence{Text: views.T(ctx, "webhook.reapply.unreadable", "Reason", r.Reason), Tone: components.ToneWarn})
	case len(words) == 0:
		out = append(out, components.Consequence{Text: views.T(ctx, "webhook.reapply.no_change")})
	default:
		for _, text := range words {
			out = append(out, components.Consequence{Text: text})
		}
	}
	if e.State == "unmatched" {
		out = append(out, components.Consequence{Text: views.T(ctx, "webhook.reapply.unmatched", "Tries", messages.Num(ctx, int64(e.Tries)))})
	}
	return out, "", nil
}

// postReapply applies the event again, once per action id.
func (s *Server) postReapply(c echo.Context) error {
	e, err := s.inboxParam(c)
	if err != nil {
		return err
	}
	actionID, err := uuid.Parse(c.FormValue("action_id"))
	if err != nil {
		return &badRequest{"action_id", "is missing; open the action again"}
	}
	a, ok := s.cfg.Registry.Get(e.Provider)
	if !ok {
		return invalid("provider", "is not configured any more")
	}
	if e.Hint() {
		return s.renderReapply(c, http.StatusConflict, e)
	}
	ctx := s.viewContext(c)
	state, err := s.cfg.Store.ReapplyWebhook(ctx, actionID, e.ID, a.Parse, s.actor(c))
	if errors.Is(err, store.ErrNotAllowed) {
		return s.renderReapply(c, http.StatusConflict, e)
	}
	if err != nil {
		return err
	}
	s.flash(c, "ok", views.T(ctx, "webhook.reapply.done", "State", views.Opt(ctx, "webhook.state.", state)))
	return c.Redirect(http.StatusSeeOther, views.WebhookPath(e.ID))
}
