package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// consoleB holds what the payment, action, webhook log, queue and checkout pages keep.
type consoleB struct {
	simulators *http.Client // talks to the demo simulators' control API
}

// rowsPerPage of every list.
const rowsPerPage = 50

// registerConsoleB adds their routes.
func registerConsoleB(s *Server) {
	s.b.simulators = &http.Client{Timeout: 3 * time.Second}
	operator := s.console.Group("", s.requireRole(store.RoleOperator))

	s.console.GET(views.PathPayments, s.listPaymentsPage)
	s.console.GET(views.PathPayments+".csv", s.exportPayments)
	s.console.GET(views.PathPayments+"/tabs", s.paymentsTabs)
	s.console.GET(views.PathPayments+"/:id", s.paymentPage)
	s.console.GET(views.PathPayments+"/:id/reconcile", s.confirmReconcile)
	s.console.POST(views.PathPayments+"/:id/reconcile", s.postReconcile)
	operator.GET(views.PathPayments+"/:id/resolve", s.confirmResolve)
	operator.POST(views.PathPayments+"/:id/resolve", s.postResolve)
	s.registerRefunds(operator)
	s.registerCaptures(operator)
	s.registerBulk(operator)
	s.registerNotes(operator)
	s.registerQueue()
	s.registerApprovals(operator)
	s.console.GET(views.PathWebhooks, s.webhookLogPage)
	s.console.GET(views.PathWebhooks+"/tabs", s.webhookLogTabs)
	s.console.GET(views.PathWebhooks+"/:id", s.webhookPage)
	operator.GET(views.PathWebhooks+"/:id/reapply", s.confirmReapply)
	operator.POST(views.PathWebhooks+"/:id/reapply", s.postReapply)
	s.console.GET(views.PathQueues, s.queuesPage)
	s.registerPauses(operator)
	s.registerJobPages()
	s.console.GET(views.PathReconciliation, s.runsPage)
	s.console.GET(views.PathReconciliation+"/:id", s.runPage)
	s.console.GET(views.PathReconciliation+"/:id/items.csv", s.exportRun)
	s.console.GET(views.PathObjects+"/:provider", s.objectPage)
	operator.GET(views.PathReconciliation+"/start/:provider", s.confirmSync)
	operator.POST(views.PathReconciliation+"/start/:provider", s.postSync)
	s.console.GET(views.PathWallets, s.walletsPage)
	s.console.GET(views.PathWallets+"/:id", s.walletPage)
	s.console.GET(views.PathWallets+"/:id/entries.csv", s.exportWallet)
	s.console.GET(views.PathAudit, s.auditPage)
	s.console.GET(views.PathAudit+".csv", s.exportAudit)
	s.console.GET(views.PathSearch, s.searchPage)
	s.registerDemo()
}

// registerDemo adds the checkout page and the fault panel, in the demo only.
func (s *Server) registerDemo() {
	if s.cfg.Demo == nil {
		return
	}
	s.public.GET(views.PathCheckout, s.checkoutPage)
	s.public.POST(views.PathCheckout, s.postCheckout)
	s.public.GET(views.PathCheckout+"/:id", s.receiptPage)
	s.console.GET(views.PathFaults, s.faultsPage)
	s.console.POST(views.PathFaults, s.postFault)
	// Where people look for them when they know the demo by its name.
	s.public.Any("/demo/checkout", moved(views.PathCheckout))
	s.public.GET("/demo", moved(views.PathFaults))
}

// moved sends a request on, with its method and body.
func moved(to string) echo.HandlerFunc {
	return func(c echo.Context) error { return c.Redirect(http.StatusPermanentRedirect, to) }
}

// idParam reads the :id of a path. What is no id names nothing: 404.
func idParam(c echo.Context) (uuid.UUID, error) {
	id, err := uuid.Parse(c.Param("id"))
	if err != nil || id.String() != strings.ToLower(c.Param("id")) {
		return uuid.Nil, store.ErrNotFound
	}
	return id, nil
}

// newActionID is the one-time id of a form.
func newActionID() string { return uuid.Must(uuid.NewV7()).String() }

// providerNames lists the configured providers, for filters.
func (s *Server) providerNames() []string {
	names := make([]string, 0, len(s.cfg.Providers))
	for _, p := range s.cfg.Providers {
		names = append(names, p.Name)
	}
	return names
}

// region describes the live part of this request's page: it refetches the page's own
// address as a fragment.
func region(c echo.Context, id, topic, rev string) components.LiveRegion {
	return components.LiveRegion{ID: id, Topic: topic, URL: c.Request().URL.RequestURI(), Rev: rev}
}

// mayResolve reports whether the person may decide payments.
func (s *Server) mayResolve(c echo.Context) bool { return s.user(c).Role.AtLeast(store.RoleOperator) }

// needsOperator names the role an action needs, when the person lacks it.
func (s *Server) needsOperator(c echo.Context) string {
	if s.mayResolve(c) {
		return ""
	}
	return string(store.RoleOperator)
}

// tooLong guards what is typed into filters.
func tooLong(text string) bool { return len(text) > 200 }
