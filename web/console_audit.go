package web

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// auditActions lists the actions people filter by most.
var auditActions = []string{"payment.status", "payment.resolve", "payment.reconcile", "payment.take", "payment.takeover", "payment.release", "payment.note", "payment.reveal", "circuit.reset", "circuit.probe_once",
	"circuit.forced_open", "circuit.forced_closed", "circuit.metrics_only", "provider.resume", "queue.pause", "queue.resume", "reconciliation.run", "webhook.reapply", "user.add", "apikey.add"}

// auditTabs are whose actions the tabs show; "all" is everybody's.
var auditTabs = []string{"people", "clients", "engine", "all"}

// auditQuery is what the address asks for.
type auditQuery struct {
	filter store.AuditFilter
	whose  string
	before int64
	values url.Values // of the links
}

// readAuditQuery checks the address. The story of one thing, or of one actor, is whole
// unless a tab is asked for.
func readAuditQuery(c echo.Context) (q auditQuery, err error) {
	f := &q.filter
	for name, field := range map[string]*string{"action": &f.Action, "target": &f.Target, "actor": &f.Actor} {
		if *field = strings.TrimSpace(c.QueryParam(name)); tooLong(*field) {
			return q, invalid(name, "is longer than 200 characters")
		}
		q.values = with(q.values, name, *field)
	}
	for name, field := range map[string]*time.Time{"from": &f.From, "to": &f.To} {
		day := c.QueryParam(name)
		if day == "" {
			continue
		}
		if *field, err = time.Parse(time.DateOnly, day); err != nil {
			return q, invalid(name, "is not a day like 2026-11-30")
		}
		q.values = with(q.values, name, day)
	}
	if !f.To.IsZero() {
		f.To = f.To.AddDate(0, 0, 1)
	}
	if q.before, err = pageNumber(c.QueryParam("before")); err != nil {
		return q, invalid("before", "is not a page")
	}
	who := c.QueryParam("who")
	if who != "" && !slices.Contains(auditTabs, who) {
		return q, invalid("who", "is not one of the choices")
	}
	if q.whose = who; who == "" {
		if q.whose = "people"; f.Target != "" || f.Actor != "" {
			q.whose = "all"
		}
	}
	if f.Whose = q.whose; q.whose == "all" {
		f.Whose = ""
	}
	q.values = with(q.values, "who", who)
	return q, nil
}

// auditPage answers the audit log.
func (s *Server) auditPage(c echo.Context) error {
	q, err := readAuditQuery(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	list, more, err := s.cfg.Store.ListAudit(ctx, q.filter, q.before, rowsPerPage)
	if err != nil {
		return err
	}
	v := views.AuditView{Page: s.page(c, "audit", views.T(ctx, "audit.title")), Whose: c.QueryParam("who"), Action: q.filter.Action,
		Target: q.filter.Target, Actor: q.filter.Actor, From: c.QueryParam("from"), To: c.QueryParam("to"), Actions: auditActions,
		Export: address(views.PathAudit+".csv", q.values)}
	if a := q.filter.Action; a != "" && !slices.Contains(auditActions, a) {
		v.Actions = append(slices.Clone(auditActions), a)
	}
	for _, a := range list {
		row := auditRow(a)
		row.Who = auditWho(ctx, a)
		v.Rows = append(v.Rows, row)
	}
	for _, tab := range auditTabs {
		v.Tabs = append(v.Tabs, components.Tab{Label: views.T(ctx, auditTabTexts[tab]), Current: tab == q.whose,
			Href: address(views.PathAudit, with(q.values, "who", tab))})
	}
	if more {
		v.Pages.Older = address(views.PathAudit, with(q.values, "before", strconv.FormatInt(list[len(list)-1].ID, 10)))
	}
	if q.before > 0 {
		v.Pages.Newer = address(views.PathAudit, q.values)
	}
	return s.render(c, http.StatusOK, views.Audit(v))
}

var auditTabTexts = map[string]string{"people": "audit.tab.people", "clients": "ops.audit.clients",
	"engine": "ops.audit.engine", "all": "audit.tab.all"}

// auditWho names an actor: a person or key by name, a command line by its user.
func auditWho(ctx context.Context, a store.AuditEntry) string {
	if name, ok := strings.CutPrefix(a.Actor, "system:cli"); ok {
		return views.T(ctx, "ops.audit.cli", "Name", or(strings.TrimPrefix(name, ":"), "–"))
	}
	if strings.HasPrefix(a.Actor, "system:") {
		return views.T(ctx, "audit.system", "Name", a.ActorName)
	}
	return a.ActorName
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
			if _, had := before[field]; !had {
				was = "" // made with it: no arrow from nothing in every line
			}
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
