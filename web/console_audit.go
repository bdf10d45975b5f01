package web

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// auditActions lists the actions people filter by most.
var auditActions = []string{"payment.status", "payment.resolve", "payment.reconcile", "circuit.reset", "circuit.probe_once",
	"circuit.forced_open", "circuit.forced_closed", "circuit.metrics_only", "charges.resume", "reconciliation.run", "webhook.reapply", "user.add", "apikey.add"}

// auditPage answers the audit log.
func (s *Server) auditPage(c echo.Context) error {
	f := store.AuditFilter{Action: strings.TrimSpace(c.QueryParam("action")), Target: strings.TrimSpace(c.QueryParam("target"))}
	who := c.QueryParam("who")
	f.People = who != "all" && f.Target == "" // the story of one thing is whole
	before, err := pageNumber(c.QueryParam("before"))
	switch {
	case err != nil:
		return invalid("before", "is not a page")
	case who != "" && who != "all":
		return invalid("who", "is not one of the choices")
	case tooLong(f.Action):
		return invalid("action", "is longer than 200 characters")
	case tooLong(f.Target):
		return invalid("target", "is longer than 200 characters")
	}
	ctx := s.viewContext(c)
	list, more, err := s.cfg.Store.ListAudit(ctx, f, before, rowsPerPage)
	if err != nil {
		return err
	}
	v := views.AuditView{Page: s.page(c, "audit", views.T(ctx, "audit.title")), Action: f.Action, Target: f.Target, Actions: auditActions, All: !f.People}
	if f.Action != "" && !slices.Contains(auditActions, f.Action) {
		v.Actions = append(slices.Clone(auditActions), f.Action)
	}
	for _, a := range list {
		row := auditRow(a)
		if strings.HasPrefix(a.Actor, "system:") {
			row.Who = views.T(ctx, "audit.system", "Name", a.ActorName)
		}
		v.Rows = append(v.Rows, row)
	}
	values := with(with(with(nil, "action", f.Action), "target", f.Target), "who", who)
	v.Tabs = []components.Tab{
		{Label: views.T(ctx, "audit.tab.people"), Href: address(views.PathAudit, with(with(values, "who", ""), "target", "")), Current: f.People},
		{Label: views.T(ctx, "audit.tab.all"), Href: address(views.PathAudit, with(values, "who", "all")), Current: !f.People}}
	if more {
		v.Pages.Older = address(views.PathAudit, with(values, "before", strconv.FormatInt(list[len(list)-1].ID, 10)))
	}
	if before > 0 {
		v.Pages.Newer = address(views.PathAudit, values)
	}
	return s.render(c, http.StatusOK, views.Audit(v))
}

func auditRow(a store.AuditEntry) views.AuditRow {
	return views.AuditRow{ID: a.ID, At: a.At, Who: a.ActorName, Action: a.Action, Target: a.Target, Reason: a.Reason,
		RequestID: a.RequestID, Changes: auditChanges(a.Before, a.After)}
}

// auditChanges lists the fields that differ, by name. The row's version only says that
// something did.
func auditChanges(before, after map[string]any) []views.AuditChange {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, after)
	var out []views.AuditChange
	for _, field := range slices.Sorted(maps.Keys(all)) {
		was, is := auditValue(before, field), auditValue(after, field)
		if was != is && field != "version" {
			out = append(out, views.AuditChange{Field: field, Before: was, After: is})
		}
	}
	return out
}

func auditValue(m map[string]any, field string) string {
	v, ok := m[field]
	switch v := v.(type) {
	case nil:
		return "–"
	case string:
		return or(v, "–")
	case float64: // a JSON number: versions and counts, never money
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = fmt.Sprint(x)
		}
		return or(strings.Join(parts, ", "), "–")
	}
	if !ok {
		return "–"
	}
	return fmt.Sprint(v)
}
