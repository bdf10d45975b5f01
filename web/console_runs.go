package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// syncPage is how many objects one page of a provider's list holds.
const syncPage = 100

// runsPage answers the reconciliation runs, whole or their live part.
func (s *Server) runsPage(c echo.Context) error {
	name := c.QueryParam("provider")
	if name != "" && !slices.Contains(s.providerNames(), name) {
		return invalid("provider", "is not configured")
	}
	var before time.Time
	if v := c.QueryParam("before"); v != "" {
		var err error
		if before, err = time.Parse(time.RFC3339Nano, v); err != nil {
			return invalid("before", "is not a page")
		}
	}
	c.Response().Header().Add(echo.HeaderVary, "HX-Request")
	build := func(ctx context.Context, rev string) (views.RunListView, error) {
		return s.runList(ctx, name, before, region(c, "run-list", store.TopicRuns, rev))
	}
	if isHTMX(c) {
		return s.fragment(c, store.TopicRuns, func(ctx context.Context, rev string) (templ.Component, error) {
			v, err := build(ctx, rev)
			return views.RunList(v), err
		})
	}
	ctx := s.viewContext(c)
	list, err := build(ctx, s.a.hub.rev(store.TopicRuns))
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, views.Runs(views.RunsView{Page: s.page(c, "reconciliation", views.T(ctx, "runs.title")),
		Provider: name, Providers: s.providerNames(), Start: s.syncLinks(s.needsOperator(c)), List: list}))
}

// syncLinks leads to a run per provider; without the role one line says who may.
func (s *Server) syncLinks(needs string) []views.ActionLink {
	if needs != "" {
		return []views.ActionLink{{Needs: needs}}
	}
	var out []views.ActionLink
	for _, name := range s.providerNames() {
		if a, ok := s.cfg.Registry.Get(name); ok && a.Capabilities().Listing {
			out = append(out, views.ActionLink{Label: name, Href: startPath(name)})
		}
	}
	return out
}

func startPath(name string) string {
	return views.PathReconciliation + "/start/" + url.PathEscape(name)
}

func (s *Server) runList(ctx context.Context, name string, before time.Time, live components.LiveRegion) (views.RunListView, error) {
	runs, more, err := s.cfg.Store.ListRuns(ctx, name, before, rowsPerPage)
	if err != nil {
		return views.RunListView{}, err
	}
	v := views.RunListView{Live: live, Findings: store.Findings}
	if v.Rows, err = s.runRows(ctx, runs); err != nil {
		return v, err
	}
	values := with(nil, "provider", name)
	if more {
		v.Pages.Older = address(views.PathReconciliation, with(values, "before", runs[len(runs)-1].StartedAt.UTC().Format(time.RFC3339Nano)))
	}
	if !before.IsZero() {
		v.Pages.Newer = address(views.PathReconciliation, values)
	}
	return v, nil
}

func (s *Server) runRows(ctx context.Context, runs []store.Run) ([]views.RunRow, error) {
	actors := make([]string, 0, len(runs))
	for _, r := range runs {
		actors = append(actors, r.TriggeredBy)
	}
	names, err := s.cfg.Store.ActorNames(ctx, actors)
	if err != nil {
		return nil, err
	}
	rows := make([]views.RunRow, 0, len(runs))
	for _, r := range runs {
		row := runRow(r)
		if strings.HasPrefix(r.TriggeredBy, "user:") {
			row.By = names[r.TriggeredBy]
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func runRow(r store.Run) views.RunRow {
	return views.RunRow{ID: r.ID.String(), Provider: r.Provider, State: r.State, From: r.From, To: r.To,
		Counts: map[string]int{"matched": r.Matched, "ours_only": r.OursOnly, "theirs_only": r.TheirsOnly,
			"amount_differs": r.AmountDiffers, "status_differs": r.StatusDiffers, "duplicate": r.Duplicate},
		StartedAt: r.StartedAt, FinishedAt: r.FinishedAt, Pages: r.Pages, Exceptions: r.Exceptions, PausedUntil: r.PausedUntil}
}

func runTabs(ctx context.Context, r views.RunRow, finding string) []components.Tab {
	path := views.RunPath(r.ID)
	tabs := []components.Tab{{Label: views.T(ctx, "run.tabs.all"), Href: address(path, nil), Current: finding == ""}}
	for _, f := range store.Findings {
		tabs = append(tabs, components.Tab{Label: views.Opt(ctx, "finding.", f), Href: address(path, with(nil, "finding", f)),
			Count: messages.Num(ctx, int64(r.Counts[f])), Current: finding == f})
	}
	return tabs
}

// syncTarget reads the provider the path names.
func (s *Server) syncTarget(c echo.Context) (provider.Settings, provider.Adapter, error) {
	p, ok := s.settings(c.Param("provider"))
	a, known := s.cfg.Registry.Get(p.Name)
	if !ok || !known {
		return p, nil, store.ErrNotFound
	}
	return p, a, nil
}

// confirmSync says roughly how many calls a run makes.
func (s *Server) confirmSync(c echo.Context) error {
	p, a, err := s.syncTarget(c)
	if err != nil {
		return err
	}
	return s.renderSync(c, http.StatusOK, p, a)
}

func (s *Server) renderSync(c echo.Context, status int, p provider.Settings, a provider.Adapter) error {
	ctx := s.viewContext(c)
	props := components.ConfirmProps{Title: views.T(ctx, "act.sync.title"), Lead: views.T(ctx, "act.sync.lead", "Provider", p.Name),
		Action: templ.SafeURL(startPath(p.Name)), Cancel: views.PathReconciliation, ActionID: newActionID(), Submit: views.T(ctx, "act.sync.submit")}
	if a.Capabilities().Listing {
		e, err := s.cfg.Store.EstimateSync(ctx, p.Name, p.SyncOverlap)
		if err != nil {
			return err
		}
		props.Consequences = syncConsequences(ctx, p.Name, e)
	} else {
		props.Blocked, props.Lead = views.T(ctx, "act.sync.blocked", "Provider", p.Name), ""
	}
	return s.renderConfirm(c, status, "reconciliation", props.Title, props)
}

func syncConsequences(ctx context.Context, name string, e store.SyncEstimate) []components.Consequence {
	window := views.T(ctx, "act.sync.window_all", "Provider", name)
	if !e.From.IsZero() {
		window = views.T(ctx, "act.sync.window", "From", views.Absolute(ctx, e.From))
	}
	calls := int64(e.Payments/syncPage + 1)
	out := []components.Consequence{
		{Text: views.N(ctx, "act.sync.calls", calls, "Provider", name, "Payments", messages.Bounded(ctx, int64(e.Payments), store.CountCap))},
		{Text: window},
		{Text: views.T(ctx, "act.sync.settles")},
	}
	if e.Open != nil {
		out = append(out, components.Consequence{Tone: components.ToneWarn,
			Text: views.T(ctx, "act.sync.open", "Time", messages.Clock(ctx, e.Open.StartedAt))})
	}
	return out
}

// postSync queues the run, once per action id.
func (s *Server) postSync(c echo.Context) error {
	p, a, err := s.syncTarget(c)
	if err != nil {
		return err
	}
	actionID, err := uuid.Parse(c.FormValue("action_id"))
	if err != nil {
		return &badRequest{"action_id", "is missing; open the action again"}
	}
	if !a.Capabilities().Listing {
		return s.renderSync(c, http.StatusConflict, p, a)
	}
	ctx := s.viewContext(c)
	if err := s.cfg.Store.SyncNow(ctx, actionID, p.Name, s.actor(c)); err != nil {
		return err
	}
	s.flash(c, "ok", views.T(ctx, "act.sync.done", "Provider", p.Name))
	return c.Redirect(http.StatusSeeOther, views.PathReconciliation)
}
