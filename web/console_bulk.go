package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// bulkRows is how many items of a frozen set a page shows.
const bulkRows = 100

// registerBulk adds the routes of actions on many rows. Support may ask providers;
// processing events again is an operator's.
func (s *Server) registerBulk(operator *echo.Group) {
	s.console.GET(views.PathBulk, s.bulksPage)
	s.console.POST(views.PathPayments+"/bulk", s.freezePayments)
	operator.POST(views.PathWebhooks+"/bulk", s.freezeWebhooks)
	s.console.GET(views.PathBulk+"/:id", s.bulkPage)
	s.console.POST(views.PathBulk+"/:id/start", s.startBulk)
	s.console.GET(views.PathBulk+"/:id/cancel", s.confirmCancelBulk)
	s.console.POST(views.PathBulk+"/:id/cancel", s.cancelBulk)
}

// mayBulk refuses whoever may not run a bulk of that kind.
func (s *Server) mayBulk(c echo.Context, b store.Bulk) error {
	if b.Kind == store.BulkReapply && !s.mayResolve(c) {
		return &forbidden{store.RoleOperator}
	}
	return nil
}

// freezePayments makes the ticked payments, or all under the filter, into a draft. The
// set is what it is at this moment: the person confirms exactly these.
func (s *Server) freezePayments(c echo.Context) error {
	form, err := c.FormParams()
	if err != nil {
		return &badRequest{"form", "cannot be read"}
	}
	q := s.readPaymentQuery(s.viewContext(c), form)
	if len(q.form.Errors) > 0 {
		return invalid("filter", "cannot be read")
	}
	set := store.BulkSet{Address: q.values.Encode()}
	switch c.FormValue("set") {
	case "all":
		set.Filter = &q.filter
	case "selected":
		for _, v := range form["pick"] {
			id, err := uuid.Parse(v)
			if err != nil {
				return invalid("pick", "is not a payment")
			}
			set.Payments = append(set.Payments, id)
		}
	default:
		return invalid("set", "is not one of the choices")
	}
	if set.Filter == nil && len(set.Payments) == 0 {
		return s.notFrozen(c, store.ErrBulkEmpty, address(views.PathPayments, q.values))
	}
	return s.freeze(c, set, address(views.PathPayments, q.values))
}

// freezeWebhooks does the same for events.
func (s *Server) freezeWebhooks(c echo.Context) error {
	form, err := c.FormParams()
	if err != nil {
		return &badRequest{"form", "cannot be read"}
	}
	q, err := s.readInboxQuery(form)
	if err != nil {
		return err
	}
	set := store.BulkSet{Address: q.values.Encode()}
	switch c.FormValue("set") {
	case "all":
		set.Inbox = &q.filter
	case "selected":
		for _, v := range form["pick"] {
			id, err := pageNumber(v)
			if err != nil || id == 0 {
				return invalid("pick", "is not an event")
			}
			set.Events = append(set.Events, id)
		}
	default:
		return invalid("set", "is not one of the choices")
	}
	if set.Inbox == nil && len(set.Events) == 0 {
		return s.notFrozen(c, store.ErrBulkEmpty, address(views.PathWebhooks, q.values))
	}
	return s.freeze(c, set, address(views.PathWebhooks, q.values))
}

func (s *Server) freeze(c echo.Context, set store.BulkSet, back templ.SafeURL) error {
	b, err := s.cfg.Store.FreezeBulk(c.Request().Context(), set, s.actor(c))
	if errors.Is(err, store.ErrBulkEmpty) || errors.Is(err, store.ErrBulkTooLarge) {
		return s.notFrozen(c, err, back)
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, views.BulkPath(b.ID.String()))
}

// notFrozen goes back to the list and says why nothing was frozen.
func (s *Server) notFrozen(c echo.Context, why error, back templ.SafeURL) error {
	ctx := s.viewContext(c)
	text := views.T(ctx, "bulk.nothing")
	if errors.Is(why, store.ErrBulkTooLarge) {
		text = views.T(ctx, "bulk.too_large", "N", views.Num(ctx, store.BulkMax))
	}
	s.flash(c, "warning", text)
	return c.Redirect(http.StatusSeeOther, string(back))
}

// bulksPage lists the latest bulk actions.
func (s *Server) bulksPage(c echo.Context) error {
	ctx := s.viewContext(c)
	v := views.BulkListView{Page: s.page(c, "payments", views.T(ctx, "bulk.past"))}
	var actors []string
	for _, kind := range []string{store.BulkReconcile, store.BulkReapply} {
		list, err := s.cfg.Store.ListBulks(ctx, kind, s.actor(c), rowsPerPage)
		if err != nil {
			return err
		}
		for _, b := range list {
			actors = append(actors, b.CreatedBy)
			v.Rows = append(v.Rows, views.BulkListRow{Href: templ.SafeURL(views.BulkPath(b.ID.String())), Kind: b.Kind, State: b.State,
				Total: int64(b.Total), By: b.CreatedBy, At: b.CreatedAt})
		}
	}
	names, err := s.cfg.Store.ActorNames(ctx, actors)
	if err != nil {
		return err
	}
	for i, r := range v.Rows {
		v.Rows[i].By = or(names[r.By], r.By)
	}
	slices.SortStableFunc(v.Rows, func(a, b views.BulkListRow) int { return b.At.Compare(a.At) })
	return s.render(c, http.StatusOK, views.Bulks(v))
}

// bulkParam reads the bulk the path names.
func (s *Server) bulkParam(c echo.Context) (store.Bulk, error) {
	id, err := idParam(c)
	if err != nil {
		return store.Bulk{}, err
	}
	return s.cfg.Store.Bulk(c.Request().Context(), id)
}

// bulkPage answers a draft's confirm page, or the progress of what runs or ran.
func (s *Server) bulkPage(c echo.Context) error {
	b, err := s.bulkParam(c)
	if err != nil {
		return err
	}
	c.Response().Header().Add(echo.HeaderVary, "HX-Request")
	only, after, err := bulkPlace(c)
	if err != nil {
		return err
	}
	if isHTMX(c) {
		if b.State == store.BulkDraft { // the check is over; the form is each viewer's own
			c.Response().Header().Set("HX-Refresh", "true")
			return c.NoContent(http.StatusOK)
		}
		return s.fragment(c, store.TopicBulks, func(ctx context.Context, rev string) (templ.Component, error) {
			body, err := s.bulkBody(ctx, c, b.ID, only, after, rev)
			return views.BulkProgress(body), err
		})
	}
	return s.renderBulk(c, http.StatusOK, b, "")
}

// bulkPlace reads which rows of the set are shown.
func bulkPlace(c echo.Context) (only string, after int, err error) {
	only = c.QueryParam("only")
	if only != "" && only != "left" && !slices.Contains(bulkOutcomes, only) {
		return "", 0, invalid("only", "is not one of the choices")
	}
	n, err := pageNumber(c.QueryParam("after"))
	if err != nil || n > store.BulkMax {
		return "", 0, invalid("after", "is not a page")
	}
	return only, int(n), nil
}

func (s *Server) renderBulk(c echo.Context, status int, b store.Bulk, problem string) error {
	only, after, err := bulkPlace(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	body, err := s.bulkBody(ctx, c, b.ID, only, after, s.a.hub.rev(store.TopicBulks))
	if err != nil {
		return err
	}
	active := "payments"
	if b.Kind == store.BulkReapply {
		active = "webhooks"
	}
	v := views.BulkView{Kind: b.Kind, Body: body, Draft: b.State == store.BulkDraft}
	title := views.T(ctx, "bulk.title."+b.Kind)
	if v.Draft {
		if v.Lanes, v.Confirm, err = s.bulkConfirm(c, b, body); err != nil {
			return err
		}
		v.Confirm.Problem = problem
	} else if problem != "" {
		s.flash(c, "warning", problem)
	}
	v.Page = s.page(c, active, title)
	return s.render(c, status, views.Bulk(v))
}

// bulkOutcomes in the order screens show them, by kind in one list.
var bulkOutcomes = []string{store.OutcomePaid, store.OutcomeFailed, store.OutcomeChanged, store.OutcomeSame,
	store.OutcomeUnknown, store.OutcomeConflict, store.OutcomeUnreadable, store.OutcomeSkipped}

// outcomesOf are those a kind can end in; a screen shows them all, the empty ones too.
var outcomesOf = map[string][]string{
	store.BulkReconcile: {store.OutcomePaid, store.OutcomeFailed, store.OutcomeUnknown, store.OutcomeConflict, store.OutcomeSkipped},
	store.BulkReapply:   {store.OutcomeChanged, store.OutcomeSame, store.OutcomeUnreadable, store.OutcomeSkipped},
}

// bulkBody reads how far a bulk is and one page of its set.
func (s *Server) bulkBody(ctx context.Context, c echo.Context, id uuid.UUID, only string, after int, rev string) (views.BulkBody, error) {
	b, err := s.cfg.Store.Bulk(ctx, id)
	if err != nil {
		return views.BulkBody{}, err
	}
	counts, err := s.cfg.Store.BulkProgress(ctx, id)
	if err != nil {
		return views.BulkBody{}, err
	}
	lines, more, err := s.cfg.Store.BulkLines(ctx, id, only, after, bulkRows)
	if err != nil {
		return views.BulkBody{}, err
	}
	names, err := s.cfg.Store.ActorNames(ctx, []string{or(b.StartedBy, b.CreatedBy), b.CancelledBy})
	if err != nil {
		return views.BulkBody{}, err
	}
	here := views.BulkPath(id.String())
	v := views.BulkBody{Kind: b.Kind, State: b.State, Total: int64(b.Total), Done: int64(b.Total - counts.Left), Only: only, Here: here,
		By: names[or(b.StartedBy, b.CreatedBy)], At: b.StartedAt, Ended: b.EndedAt, Stopper: names[b.CancelledBy],
		Live: components.LiveRegion{ID: "bulk-body", Topic: store.TopicBulks, URL: string(address(here, bulkQuery(only, after))), Rev: rev}}
	if b.State == store.BulkChecking {
		v.Done = int64(b.Total - counts.Expected[""])
	}
	if b.State == store.BulkRunning {
		v.Cancel = &views.ActionLink{Label: "bulk.act.cancel", Href: here + "/cancel", Kind: "danger"}
		if b.Kind == store.BulkReapply {
			v.Cancel.Needs = s.needsOperator(c)
		}
	}
	for _, o := range outcomesOf[b.Kind] {
		v.Counts = append(v.Counts, views.BulkCount{Key: o, N: int64(counts.Done[o]), Tone: views.BulkTone(o)})
		if b.Kind == store.BulkReapply {
			v.Expected = append(v.Expected, views.BulkCount{Key: o, N: int64(counts.Expected[o]), Tone: views.BulkTone(o)})
		}
	}
	if b.State != store.BulkDraft {
		v.Counts = append(v.Counts, views.BulkCount{Key: "left", N: int64(counts.Left), Tone: components.ToneIdle})
	}
	v.Skipped = skipCounts(counts.Skipped)
	for name, until := range b.Waits {
		if until.After(s.cfg.Now()) {
			v.Waits = append(v.Waits, views.BulkWait{Provider: name, Until: until})
		}
	}
	for _, l := range lines {
		v.Rows = append(v.Rows, bulkRow(ctx, l))
	}
	if more {
		v.Pages.Older = address(here, bulkQuery(only, lines[len(lines)-1].Seq))
	}
	if after > 0 {
		v.Pages.Newer = address(here, bulkQuery(only, 0))
	}
	return v, nil
}

func bulkQuery(only string, after int) url.Values {
	v := with(nil, "only", only)
	if after > 0 {
		v.Set("after", strconv.Itoa(after))
	}
	return v
}

func skipCounts(by map[string]int) (out []views.BulkCount) {
	for _, why := range []string{store.SkipSettled, store.SkipLately, store.SkipUnsent, store.SkipResend, store.SkipNoWay,
		store.SkipNoProvider, store.SkipHint, store.SkipGone} {
		if n := by[why]; n > 0 {
			out = append(out, views.BulkCount{Key: why, N: int64(n)})
		}
	}
	return out
}

func bulkRow(ctx context.Context, l store.BulkLine) views.BulkRow {
	r := views.BulkRow{Seq: l.Seq, Name: l.Name, Provider: l.Provider, Status: string(l.Status), State: l.State,
		Expected: l.Expected, Outcome: l.Outcome, Detail: l.Detail, DoneAt: l.DoneAt}
	if l.PaymentID != nil {
		r.Href = templ.SafeURL(views.PaymentPath(l.PaymentID.String()))
	}
	if l.EventID != nil {
		r.Href = templ.SafeURL(views.WebhookPath(*l.EventID))
		r.Name = or(r.Name, views.T(ctx, "webhooks.no_type"))
	}
	if l.Expected != "" {
		r.Expects = expectWords(ctx, l.Expects)
	}
	return r
}

// expectWords says what a dry run saw: the event's state, then what the payment does.
func expectWords(ctx context.Context, r store.Reapplied) (out []string) {
	if r.Outcome == store.OutcomeSkipped {
		return []string{views.Opt(ctx, "bulk.skip.", r.Reason)}
	}
	if r.Before != r.After {
		out = append(out, views.T(ctx, "bulk.event_moves", "From", views.Opt(ctx, "webhook.state.", r.Before), "To", views.Opt(ctx, "webhook.state.", r.After)))
	}
	for _, m := range r.Moves {
		if m.From != m.To {
			out = append(out, views.T(ctx, "bulk.payment_moves", "From", views.Opt(ctx, "status.", m.From), "To", views.Opt(ctx, "status.", m.To)))
		}
		for _, why := range m.Review {
			out = append(out, views.T(ctx, "bulk.review_opens", "Reason", views.Opt(ctx, "review.", why)))
		}
	}
	return out
}

// bulkConfirm states what a draft does, in numbers.
func (s *Server) bulkConfirm(c echo.Context, b store.Bulk, body views.BulkBody) ([]views.BulkLane, components.ConfirmProps, error) {
	ctx := s.viewContext(c)
	path := views.BulkPath(b.ID.String())
	list := address(views.PathPayments, nil)
	if b.Kind == store.BulkReapply {
		list = address(views.PathWebhooks, nil)
	}
	props := components.ConfirmProps{Action: templ.SafeURL(path + "/start"), Cancel: list, ActionID: newActionID(),
		Hidden: []components.HiddenField{{Name: "version", Value: strconv.FormatInt(b.Version, 10)}}}
	source := "bulk.source.selected"
	if !b.Selected {
		source = "bulk.source.filter"
		if props.Cancel = list; b.Filter != "" {
			props.Cancel = list + templ.SafeURL("?"+b.Filter)
		}
	}
	frozen := views.T(ctx, source, "Time", messages.Clock(ctx, b.CreatedAt))
	if b.Filter != "" && !b.Selected {
		props.Facts = []components.Term{{Label: views.T(ctx, "bulk.filter"), Value: readableFilter(b.Filter), Mono: true}}
	}
	total := int64(b.Total)
	if b.Kind == store.BulkReapply {
		props.Title = views.N(ctx, "bulk.reapply.title", total)
		props.Lead, props.Submit = views.T(ctx, "bulk.reapply.lead"), views.T(ctx, "webhook.reapply.submit")
		props.Consequences = []components.Consequence{{Text: frozen}, {Text: views.T(ctx, "bulk.reapply.same_rules")}, {Text: views.T(ctx, "bulk.stop_any_time")}}
		if needs := s.needsOperator(c); needs != "" {
			props.Blocked = views.T(ctx, "ui.role_needed", "Role", views.Opt(ctx, "role.", needs))
		} else if expectedN(body, store.OutcomeChanged) == 0 {
			props.Consequences = append(props.Consequences, components.Consequence{Text: views.T(ctx, "bulk.reapply.no_change")})
		}
		return nil, props, nil
	}
	lanes, err := s.bulkLanes(ctx, b)
	if err != nil {
		return nil, props, err
	}
	props.Title, props.Submit = views.N(ctx, "bulk.reconcile.title", total), views.T(ctx, "bulk.reconcile.submit")
	if len(lanes) == 1 {
		props.Title = views.N(ctx, "bulk.reconcile.title_one", total, "Provider", lanes[0].Provider)
	}
	props.Consequences = []components.Consequence{{Text: frozen},
		{Text: views.T(ctx, "bulk.reconcile.pace", "N", views.Num(ctx, store.BulkPace))},
		{Text: views.T(ctx, "bulk.reconcile.may_settle")}, {Text: views.T(ctx, "bulk.stop_any_time")}}
	var ask int64
	for _, l := range lanes {
		ask += l.Ask
	}
	if ask == 0 {
		props.Blocked = views.T(ctx, "bulk.reconcile.none")
	}
	return lanes, props, nil
}

func expectedN(b views.BulkBody, key string) int64 {
	for _, c := range b.Expected {
		if c.Key == key {
			return c.N
		}
	}
	return 0
}

// readableFilter is a filter's address without its escapes.
func readableFilter(query string) string {
	if text, err := url.QueryUnescape(query); err == nil {
		return text
	}
	return query
}

// bulkLanes forecasts a draft's work per provider.
func (s *Server) bulkLanes(ctx context.Context, b store.Bulk) ([]views.BulkLane, error) {
	forecast, err := s.cfg.Store.ForecastBulk(ctx, b.ID)
	if err != nil {
		return nil, err
	}
	r, err := s.a.now.get(ctx)
	if err != nil {
		return nil, err
	}
	lanes := make([]views.BulkLane, 0, len(forecast))
	for _, f := range forecast {
		skips := map[string]int{store.SkipSettled: f.Settled, store.SkipLately: f.Lately, store.SkipUnsent: f.Unsent}
		ask, why := s.askable(f)
		skips[why] += f.Rest - ask
		l := views.BulkLane{Provider: f.Provider, Total: int64(f.Total), Ask: int64(ask), Requests: int64(s.bulkRequests(f, ask)),
			Takes: time.Duration(ask) * time.Second / store.BulkPace, Skips: skipCounts(skips)}
		if snap, ok := r.circuits[statusKey(f.Provider).String()]; ok && blocks(snap) {
			l.Blocked = true
			if !snap.OpenUntil.IsZero() {
				l.OpenUntil = &snap.OpenUntil
			}
		}
		lanes = append(lanes, l)
	}
	return lanes, nil
}

// startBulk sets the draft going, once: a double click, a second tab and Back find it
// started.
func (s *Server) startBulk(c echo.Context) error {
	b, err := s.bulkParam(c)
	if err != nil {
		return err
	}
	if err := s.mayBulk(c, b); err != nil {
		return err
	}
	form, err := readActionForm(c)
	if err != nil {
		return err
	}
	_, err = s.cfg.Store.StartBulk(c.Request().Context(), form.actionID, b.ID, form.version, s.actor(c))
	var conflict *store.BulkConflictError
	if errors.As(err, &conflict) {
		return s.bulkConflict(c, b.ID, conflict)
	}
	if err != nil {
		return err
	}
	s.a.hub.touch(store.TopicBulks)
	return c.Redirect(http.StatusSeeOther, views.BulkPath(b.ID.String()))
}

// bulkConflict shows the bulk as it is now, and who was first.
func (s *Server) bulkConflict(c echo.Context, id uuid.UUID, e *store.BulkConflictError) error {
	ctx := s.viewContext(c)
	b, err := s.cfg.Store.Bulk(ctx, id)
	if err != nil {
		return err
	}
	text := views.T(ctx, "bulk.conflict", "By", e.By, "Time", messages.Clock(ctx, e.At), "State", views.T(ctx, "bulk.state."+e.State))
	return s.renderBulk(c, http.StatusConflict, b, text)
}

// confirmCancelBulk asks before a running bulk is stopped.
func (s *Server) confirmCancelBulk(c echo.Context) error {
	b, err := s.bulkParam(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	counts, err := s.cfg.Store.BulkProgress(ctx, b.ID)
	if err != nil {
		return err
	}
	path := views.BulkPath(b.ID.String())
	props := components.ConfirmProps{Title: views.T(ctx, "bulk.cancel.title"), Action: templ.SafeURL(path + "/cancel"), Cancel: templ.SafeURL(path),
		ActionID: newActionID(), Submit: views.T(ctx, "bulk.act.cancel"), Danger: true,
		Consequences: []components.Consequence{{Text: views.N(ctx, "bulk.cancel.left", int64(counts.Left))},
			{Text: views.N(ctx, "bulk.cancel.done", int64(b.Total-counts.Left))}}}
	if b.State != store.BulkRunning {
		props.Blocked, props.Consequences = views.T(ctx, "bulk.cancel.over", "State", views.T(ctx, "bulk.state."+b.State)), nil
	}
	active := "payments"
	if b.Kind == store.BulkReapply {
		active = "webhooks"
	}
	return s.renderConfirm(c, http.StatusOK, active, props.Title, props)
}

// cancelBulk stops it before the next item.
func (s *Server) cancelBulk(c echo.Context) error {
	b, err := s.bulkParam(c)
	if err != nil {
		return err
	}
	if err := s.mayBulk(c, b); err != nil {
		return err
	}
	id, err := uuid.Parse(c.FormValue("action_id"))
	if err != nil {
		return &badRequest{"action_id", "is missing; open the action again"}
	}
	_, err = s.cfg.Store.CancelBulk(c.Request().Context(), id, b.ID, s.actor(c))
	var conflict *store.BulkConflictError
	if errors.As(err, &conflict) {
		return s.bulkConflict(c, b.ID, conflict)
	}
	if err != nil {
		return err
	}
	s.a.hub.touch(store.TopicBulks)
	s.flash(c, "ok", views.T(s.viewContext(c), "bulk.cancel.flash"))
	return c.Redirect(http.StatusSeeOther, views.BulkPath(b.ID.String()))
}
