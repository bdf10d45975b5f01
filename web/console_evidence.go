package web

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
)

// Bounds of what is printed of one payment; beyond them the page says what is missing.
const (
	printedMoments = 5000
	printedAudit   = 500
)

// evidencePage is everything about a payment on one page to print: for a dispute, the
// provider's support, an auditor. Every time is UTC, whoever prints it.
func (s *Server) evidencePage(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	d, err := s.cfg.Store.DossierAt(ctx, id, store.TimelineQuery{Limit: printedMoments})
	if err != nil {
		return err
	}
	audit, more, err := s.cfg.Store.ListAudit(ctx, store.AuditFilter{Target: "payment:" + id.String()}, 0, printedAudit)
	if err != nil {
		return err
	}
	detail := s.paymentDetail(d, s.needsOperator(c))
	bare(&detail)
	v := views.PrintView{Page: s.page(c, "payments", views.T(ctx, "evidence.title", "Order", d.Payment.OrderRef)), Detail: detail,
		Message: d.Payment.ProviderMessage, PrintedAt: s.cfg.Now(), PrintedBy: s.user(c).Name, Version: d.Payment.Version,
		Key: d.Payment.IdempotencyKey, Cut: d.Earlier != nil, MoreAudit: more}
	for _, a := range detail.Attempts {
		v.Attempts = append(v.Attempts, views.PrintedAttempt{Of: "charge", AttemptView: a})
	}
	for _, r := range detail.Refunds.Rows {
		v.Attempts = append(v.Attempts, printedAttempts("refund", r.Seq, r.Attempts)...)
	}
	for _, r := range detail.Capture.Rows {
		v.Attempts = append(v.Attempts, printedAttempts(r.Kind, r.Seq, r.Attempts)...)
	}
	slices.SortStableFunc(v.Attempts, func(a, b views.PrintedAttempt) int { return a.MarkedAt.Compare(b.MarkedAt) })
	for _, a := range slices.Backward(audit) {
		v.Audit = append(v.Audit, auditRow(a))
	}
	return s.render(c, http.StatusOK, views.Print(v))
}

func printedAttempts(kind string, seq int, list []views.AttemptView) []views.PrintedAttempt {
	out := make([]views.PrintedAttempt, len(list))
	for i, a := range list {
		out[i] = views.PrintedAttempt{Of: kind, N: seq, AttemptView: a}
	}
	return out
}

// bare takes away what paper cannot do.
func bare(d *views.PaymentDetail) {
	d.Actions = nil
	for i := range d.Objects {
		d.Objects[i].Reveal = nil
	}
}
