package web

import (
	"slices"
	"strings"
	"time"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
)

// This file turns refunds and disputes of a payment into what its page shows.

// refundPath is one refund's address; its page is a part of the payment's.
func refundPath(o store.Operation) string { return "/refunds/" + o.ID.String() }

// refundsView is the refunds section of a payment's page. needs names the role that may
// act, when the reader's may not.
func (s *Server) refundsView(d store.Dossier, needs string) views.RefundsView {
	f, p := d.Refundable, d.Payment
	v := views.RefundsView{Provider: p.Provider, Currency: p.Currency, Captured: f.Captured, Refunded: f.Refunded, Waiting: f.Pending,
		Unknown: f.Unknown, Refundable: f.Refundable, Cannot: !s.canRefund(p.Provider) && f.Refundable > 0}
	if f.Refundable > 0 && !v.Cannot {
		v.Action = &views.ActionLink{Label: "refund.act", Href: views.PaymentPath(p.ID.String()) + "/refund", Needs: needs}
	}
	v.Extra = s.extraCharges(d, needs)
	for _, o := range d.Operations {
		if o.Kind == provider.OpRefund {
			v.Rows = append(v.Rows, s.refundRow(d, o, needs))
		}
	}
	return v
}

// refundRow is one refund with its evidence.
func (s *Server) refundRow(d store.Dossier, o store.Operation, needs string) views.RefundRow {
	r := refundFacts(o)
	r.WhoKind, _, _ = strings.Cut(o.RequestedBy, ":")
	r.Who = d.Names[o.RequestedBy]
	if o.ProviderPaymentID != d.Payment.ProviderPaymentID {
		r.OtherCharge = o.ProviderPaymentID
	}
	if o.StatusEvidence == string(store.ByOperator) {
		r.DecidedBy = refundDecidedBy(d, o)
	}
	for _, a := range d.OperationAttempts[o.ID] {
		if at := sentAt(a); at != nil {
			r.SentAt, r.HTTPStatus = at, a.HTTPStatus
		}
		view := attemptView(a)
		view.Refund = true
		r.Attempts = append(r.Attempts, view)
	}
	r.NothingCanLook = !s.canAskRefund(o)
	r.Actions = s.refundActions(o, needs)
	return r
}

// refundFacts is what a refund says of itself.
func refundFacts(o store.Operation) views.RefundRow {
	r := views.RefundRow{ID: o.ID.String(), PaymentID: o.PaymentID.String(), Provider: o.Provider, Seq: o.Seq, Status: string(o.Status),
		Evidence: o.StatusEvidence, Reason: o.StatusReason, Why: o.Reason, Review: o.NeedsReview, Amount: o.Amount, Beyond: o.Beyond,
		Currency: o.Currency, External: o.Origin == store.OriginExternal, TheirID: o.ProviderObjectID, Words: o.ProviderMessage,
		CreatedAt: o.CreatedAt, DecidedAt: o.UpdatedAt, NextAt: o.NextCheckAt, NextWhy: o.NextCheckWhy}
	if o.SettledAt != nil {
		r.DecidedAt = *o.SettledAt
	}
	return r
}

// refundDecidedBy names the person behind the latest decision about a refund.
func refundDecidedBy(d store.Dossier, o store.Operation) string {
	for _, e := range slices.Backward(d.Decisions) {
		if e.Source == "operator" && e.Evidence["operation_id"] == o.ID.String() && e.Evidence["to"] != nil {
			return d.Names[e.Actor]
		}
	}
	return ""
}

// canAskRefund reports whether a provider can be asked about a refund.
func (s *Server) canAskRefund(o store.Operation) bool {
	a, ok := s.cfg.Registry.Get(o.Provider)
	return ok && (a.Capabilities().CanAsk() ||
		o.Status == store.Unknown && a.Capabilities().CanReplay() && !replaysOver(o.NeedsReview, o.StatusReason))
}

// mayAskRefund reports whether asking now makes sense: something may have been sent, and
// the answer is not final, or doubted.
func (s *Server) mayAskRefund(o store.Operation) bool {
	open := o.Status != store.Pending && (!o.Status.Final() || len(o.NeedsReview) > 0)
	return open && s.canAskRefund(o)
}

// refundActions lists what may be done about a refund now; never "send it again".
func (s *Server) refundActions(o store.Operation, needs string) []views.ActionLink {
	var out []views.ActionLink
	path := refundPath(o)
	if s.mayAskRefund(o) {
		out = append(out, views.ActionLink{Label: "refund.act.ask", Href: path + "/lookup", Kind: "primary", Icon: "refresh"})
	}
	switch {
	case mayDecide(o):
		out = append(out,
			views.ActionLink{Label: "refund.act.done", Href: path + "/resolve?to=succeeded", Needs: needs},
			views.ActionLink{Label: "refund.act.failed", Href: path + "/resolve?to=failed", Needs: needs})
	case len(o.NeedsReview) > 0:
		out = append(out, views.ActionLink{Label: "refund.act.settle", Href: path + "/resolve?to=" + string(o.Status), Needs: needs})
	}
	return out
}

// disputeViews are a payment's disputes, oldest first.
func disputeViews(list []store.Dispute) []views.DisputeView {
	out := make([]views.DisputeView, 0, len(list))
	for _, d := range list {
		out = append(out, disputeView(d))
	}
	return out
}

func disputeView(d store.Dispute) views.DisputeView {
	return views.DisputeView{ID: d.DisputeID, PaymentID: d.PaymentID.String(), Provider: d.Provider, State: d.State, Reason: d.Reason,
		Currency: d.Currency, Amount: d.Amount, DueBy: d.DueBy, OpenedAt: d.OpenedAt, StateAt: d.StateAt}
}

// childMoment says which refund or dispute a timeline event is about; nil: the payment.
// The amount is the refund's own: numbers of stored evidence are not read back.
func childMoment(d store.Dossier, e store.TimelineEvent) *views.ChildMoment {
	if id, ok := e.Evidence["dispute_id"].(string); ok {
		word := ""
		if due, ok := e.Evidence["due_by"].(string); ok && e.Kind == "dispute_"+provider.DisputeOpened {
			word = due
		}
		return &views.ChildMoment{DisputeID: id, Word: word}
	}
	for _, o := range d.Operations {
		if e.Evidence["operation_id"] == o.ID.String() {
			status, _ := e.Evidence["operation_status"].(string)
			return &views.ChildMoment{Kind: actionKind(o), Seq: o.Seq, Amount: o.Amount, Currency: o.Currency, Status: status, Moved: e.Evidence["to"] != nil}
		}
	}
	return nil
}

// nextOfRefunds are the moments to come of refunds that are not final.
func nextOfRefunds(d store.Dossier) []views.PaymentMoment {
	var out []views.PaymentMoment
	for _, o := range d.Operations {
		if o.NextCheckAt == nil || o.Status.Final() {
			continue
		}
		what := "refund_check"
		if o.Status == store.Pending {
			what = "refund_send"
		}
		out = append(out, views.PaymentMoment{ID: "next-" + o.ID.String(), At: *o.NextCheckAt, Future: true, FutureWhat: what,
			Child: &views.ChildMoment{Kind: actionKind(o), Seq: o.Seq}})
	}
	slices.SortStableFunc(out, func(a, b views.PaymentMoment) int { return a.At.Compare(b.At) })
	return out
}

// refundsOfPayment adds what the verdict says about refunds and disputes.
func refundsOfPayment(f *views.PaymentFacts, d store.Dossier) {
	f.Refunded, f.RefundWaiting, f.RefundUnknown = d.Refundable.Refunded, d.Refundable.Pending, d.Refundable.Unknown
	f.Disputed = slices.ContainsFunc(d.Disputes, func(x store.Dispute) bool { return x.State == provider.DisputeOpened })
}

// latestRefund is the refund of a charge that changed last; ok is false without any.
func latestRefund(d store.Dossier, charge string) (last store.Operation, ok bool) {
	var at time.Time
	for _, o := range d.Operations {
		if o.Kind == provider.OpRefund && o.ProviderPaymentID == charge && !o.UpdatedAt.Before(at) {
			last, at, ok = o, o.UpdatedAt, true
		}
	}
	return last, ok
}
