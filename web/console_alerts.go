package web

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

const alertsPerPage = 50

// The tabs of the alert list; empty is all.
var (
	severities  = []string{"", "critical", "warning", "info"}
	alertStates = []string{"", store.AlertsOpen, store.AlertsKnown, store.AlertsOver}
)

// registerAlerts adds the alert list and taking notice of what stands on it.
func (s *Server) registerAlerts(operator *echo.Group) {
	s.console.GET(views.PathAlerts, s.alertsPage)
	s.console.GET(views.PathAlerts+"/open", s.openAlertsFragment)
	operator.GET(views.PathAlerts+"/acknowledge", s.confirmAcknowledgeAll)
	operator.POST(views.PathAlerts+"/acknowledge", s.postAcknowledgeAll)
	operator.GET(views.PathAlerts+"/:id/acknowledge", s.confirmAcknowledge)
	operator.POST(views.PathAlerts+"/:id/acknowledge", s.postAcknowledge)
}

// alertQuery is the list's address, read.
type alertQuery struct {
	filter store.AlertFilter
	before int64
}

func (q alertQuery) values() url.Values {
	return with(with(nil, "severity", q.filter.Severity), "state", q.filter.Known)
}

func readAlertQuery(c echo.Context) (q alertQuery, err error) {
	q.filter = store.AlertFilter{Severity: c.QueryParam("severity"), Known: c.QueryParam("state")}
	if !contains(severities, q.filter.Severity) {
		return q, &badRequest{"severity", "is not one of critical, warning, info"}
	}
	if !contains(alertStates, q.filter.Known) {
		return q, &badRequest{"state", "is not one of open, acknowledged, over"}
	}
	if b := c.QueryParam("before"); b != "" {
		if q.before, err = strconv.ParseInt(b, 10, 64); err != nil || q.before < 1 {
			return q, &badRequest{"before", "is not an alert number"}
		}
	}
	return q, nil
}

// alertsPage lists alerts, latest first.
func (s *Server) alertsPage(c echo.Context) error {
	q, err := readAlertQuery(c)
	if err != nil {
		return err
	}
	uri, needs := c.Request().URL.RequestURI(), s.needsOperator(c)
	return s.livePage(c, "alerts", views.T(s.viewContext(c), "nav.alerts"), store.TopicAlerts,
		func(ctx context.Context, rev string) (templ.Component, error) {
			list, more, err := s.cfg.Store.ListAlerts(ctx, q.filter, q.before, alertsPerPage)
			if err != nil {
				return nil, err
			}
			v := views.AlertsView{Rows: alertRows(list), Severities: severityTabs(ctx, q), States: alertStateTabs(ctx, q),
				Any: q.filter == store.AlertFilter{}, Needs: needs,
				Live: components.LiveRegion{ID: "alerts", Topic: store.TopicAlerts, URL: uri, Rev: rev}}
			if q.before > 0 {
				v.Pages.Newer = address(views.PathAlerts, q.values())
			}
			if more {
				v.Pages.Older = address(views.PathAlerts, with(q.values(), "before", strconv.FormatInt(list[len(list)-1].ID, 10)))
			}
			if q.before == 0 {
				v.All, err = s.acknowledgeAllLink(ctx, q, list)
			}
			return views.Alerts(v), err
		})
}

// acknowledgeAllLink offers to take notice of several at once: those that are open under
// the severity, up to the newest shown.
func (s *Server) acknowledgeAllLink(ctx context.Context, q alertQuery, list []store.Alert) (templ.SafeURL, error) {
	if len(list) == 0 || q.filter.Known == store.AlertsKnown || q.filter.Known == store.AlertsOver {
		return "", nil
	}
	n, err := s.cfg.Store.CountOpenAlerts(ctx, q.filter.Severity, list[0].ID)
	if err != nil || n < 2 {
		return "", err
	}
	return address(views.PathAlerts+"/acknowledge", with(with(nil, "severity", q.filter.Severity), "up_to", strconv.FormatInt(list[0].ID, 10))), nil
}

func severityTabs(ctx context.Context, q alertQuery) []components.Tab {
	tabs := make([]components.Tab, len(severities))
	for i, sev := range severities {
		label := views.T(ctx, "ui.any")
		if sev != "" {
			label = views.Opt(ctx, "severity.", sev)
		}
		tabs[i] = components.Tab{Label: label, Href: address(views.PathAlerts, with(q.values(), "severity", sev)), Current: sev == q.filter.Severity}
	}
	return tabs
}

func alertStateTabs(ctx context.Context, q alertQuery) []components.Tab {
	tabs := make([]components.Tab, len(alertStates))
	for i, state := range alertStates {
		label := views.T(ctx, "alerts.state.all")
		if state != "" {
			label = views.Opt(ctx, "alerts.state.", state)
		}
		tabs[i] = components.Tab{Label: label, Href: address(views.PathAlerts, with(q.values(), "state", state)), Current: state == q.filter.Known}
	}
	return tabs
}

func alertRows(list []store.Alert) []views.AlertRow {
	rows := make([]views.AlertRow, len(list))
	for i, a := range list {
		rows[i] = alertRow(a)
	}
	return rows
}

func alertRow(a store.Alert) views.AlertRow {
	row := views.AlertRow{ID: a.ID, Severity: a.Severity, Kind: a.Kind, Provider: a.Provider, Title: a.Title,
		Detail: a.Detail, At: a.CreatedAt, Delivered: a.DeliveredAt, Over: a.Over}
	if circuit, ok := strings.CutPrefix(a.DedupeKey, "circuit:"); ok {
		_, class, _ := strings.Cut(circuit, "/")
		row.Class, _, _ = strings.Cut(class, ":")
	}
	if a.PaymentID != nil {
		row.PaymentID = a.PaymentID.String()
	}
	if k := a.Known; k != nil {
		row.Known = &views.AlertKnown{Name: k.Name, Note: k.Note, At: k.At}
	}
	return row
}

// openAlerts is the count beside "Alerts". It never fails a page.
func (s *Server) openAlerts(ctx context.Context, rev string) views.WaitingView {
	v := views.WaitingView{Rev: rev}
	if n, err := s.cfg.Store.OpenAlerts(ctx); err == nil && n > 0 {
		v.Count = messages.Bounded(ctx, int64(n), store.OpenAlertsCap)
	}
	return v
}

func (s *Server) openAlertsFragment(c echo.Context) error {
	return s.fragment(c, store.TopicAlerts, func(ctx context.Context, rev string) (templ.Component, error) {
		return views.OpenAlerts(s.openAlerts(ctx, rev)), nil
	})
}
