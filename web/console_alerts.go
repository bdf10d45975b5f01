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
)

const alertsPerPage = 50

// severities are the tabs of the alert list; empty is all.
var severities = []string{"", "critical", "warning", "info"}

// alertsPage lists alerts, latest first.
func (s *Server) alertsPage(c echo.Context) error {
	severity := c.QueryParam("severity")
	if !contains(severities, severity) {
		return &badRequest{"severity", "is not one of critical, warning, info"}
	}
	before := int64(0)
	if b := c.QueryParam("before"); b != "" {
		var err error
		if before, err = strconv.ParseInt(b, 10, 64); err != nil || before < 1 {
			return &badRequest{"before", "is not an alert number"}
		}
	}
	uri := c.Request().URL.RequestURI()
	return s.livePage(c, "alerts", views.T(s.viewContext(c), "nav.alerts"), store.TopicAlerts,
		func(ctx context.Context, rev string) (templ.Component, error) {
			list, more, err := s.cfg.Store.ListAlerts(ctx, severity, before, alertsPerPage)
			if err != nil {
				return nil, err
			}
			v := views.AlertsView{Rows: alertRows(list), Tabs: alertTabs(ctx, severity), Any: severity == "",
				Live: components.LiveRegion{ID: "alerts", Topic: store.TopicAlerts, URL: uri, Rev: rev}}
			if before > 0 {
				v.Pages.Newer = alertsHref(severity, 0)
			}
			if more {
				v.Pages.Older = alertsHref(severity, list[len(list)-1].ID)
			}
			return views.Alerts(v), nil
		})
}

func alertTabs(ctx context.Context, current string) []components.Tab {
	tabs := make([]components.Tab, len(severities))
	for i, sev := range severities {
		label := views.T(ctx, "ui.any")
		if sev != "" {
			label = views.Opt(ctx, "severity.", sev)
		}
		tabs[i] = components.Tab{Label: label, Href: alertsHref(sev, 0), Current: sev == current}
	}
	return tabs
}

func alertsHref(severity string, before int64) templ.SafeURL {
	q := url.Values{}
	if severity != "" {
		q.Set("severity", severity)
	}
	if before > 0 {
		q.Set("before", strconv.FormatInt(before, 10))
	}
	if len(q) == 0 {
		return views.PathAlerts
	}
	return templ.SafeURL(views.PathAlerts + "?" + q.Encode())
}

func alertRows(list []store.Alert) []views.AlertRow {
	rows := make([]views.AlertRow, len(list))
	for i, a := range list {
		rows[i] = views.AlertRow{ID: a.ID, Severity: a.Severity, Kind: a.Kind, Provider: a.Provider, Title: a.Title,
			Detail: a.Detail, At: a.CreatedAt, Delivered: a.DeliveredAt}
		if circuit, ok := strings.CutPrefix(a.DedupeKey, "circuit:"); ok {
			_, class, _ := strings.Cut(circuit, "/")
			rows[i].Class, _, _ = strings.Cut(class, ":")
		}
		if a.PaymentID != nil {
			rows[i].PaymentID = a.PaymentID.String()
		}
	}
	return rows
}
