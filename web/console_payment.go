package web

import (
	"bytes"
	"context"
	"encoding/json"
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
)

// shownBody caps what is shown of a stored body, in bytes.
const shownBody = 16 << 10

// paymentPage answers one payment, whole or its live part.
func (s *Server) paymentPage(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	c.Response().Header().Add(echo.HeaderVary, "HX-Request")
	part, err := timelineQuery(c.QueryParams())
	if err != nil {
		return err
	}
	// build makes the part that moves. me is the reader, if the part is theirs alone.
	build := func(ctx context.Context, rev string, me uuid.UUID) (views.PaymentDetail, store.Payment, error) {
		d, err := s.cfg.Store.DossierAt(ctx, id, part)
		if err != nil {
			return views.PaymentDetail{}, store.Payment{}, err
		}
		v := s.paymentDetail(d, s.needsOperator(c))
		v.Story = storyView(ctx, d, part)
		if part.Before != nil {
			v.Timeline = slices.DeleteFunc(v.Timeline, func(m views.PaymentMoment) bool { return m.Future })
		}
		v.Live = region(c, "payment-live", store.TopicPayments, rev)
		return v, d.Payment, s.standingProposal(ctx, d.Payment, me, s.needsOperator(c), &v)
	}
	if isHTMX(c) {
		me := uuid.Nil
		if c.QueryParam(paramMe) != "" {
			if own, err := s.readMe(c); err != nil || !own {
				return invalid(paramMe, "is somebody else")
			}
			me = s.user(c).ID
		}
		return s.fragment(c, store.TopicPayments, func(ctx context.Context, rev string) (templ.Component, error) {
			v, _, err := build(ctx, rev, me)
			return views.PaymentLive(v), err
		})
	}
	ctx := s.viewContext(c)
	detail, p, err := build(ctx, s.a.hub.rev(store.TopicPayments), s.user(c).ID)
	if err != nil {
		return err
	}
	if detail.Proposal != nil { // its buttons are the reader's own, and so is the part that moves
		detail.Live.URL = string(address(views.PaymentPath(id.String()), with(c.QueryParams(), paramMe, s.user(c).ID.String())))
	}
	return s.render(c, http.StatusOK, views.Payment(views.PaymentView{
		Page:   s.page(c, "payments", views.T(ctx, "payment.title", "Order", p.OrderRef)),
		Detail: detail, Message: p.ProviderMessage,
		Translate: "/console/translate?payment=" + url.QueryEscape(p.ID.String()),
	}))
}

// paymentDetail turns a dossier into what the page shows. needs names the role that may
// decide, when the reader's may not.
func (s *Server) paymentDetail(d store.Dossier, needs string) views.PaymentDetail {
	v := views.PaymentDetail{Facts: s.paymentFacts(d), Actions: s.paymentActions(d.Payment, needs), Terms: paymentTerms(d),
		ReplayKey: s.replayKey(d), Wallet: walletEffect(d), Refunds: s.refundsView(d, needs), Capture: s.captureView(d, needs), Disputes: disputeViews(d.Disputes)}
	v.Actions = append(v.Actions, extraActions(v.Refunds.Extra)...)
	v.MoreWebhooks = d.MoreWebhooks
	for _, a := range d.Attempts {
		view := attemptView(a)
		view.Reveal = revealAttempt(d.Payment, a, needs)
		v.Attempts = append(v.Attempts, view)
	}
	for _, e := range d.Webhooks {
		v.Webhooks = append(v.Webhooks, webhookRow(e))
	}
	for _, o := range d.Objects {
		v.Objects = append(v.Objects, views.ObjectView{ID: o.ObjectID, Status: o.Status, Outcome: o.Outcome, Amount: o.Amount,
			Currency: o.Currency, Reference: o.Reference, Key: o.OperationKey, Source: o.Source, SeenAt: o.SeenAt, Reveal: revealObject(d.Payment, o, needs)})
	}
	v.Timeline = timeline(d, v)
	return v
}

// paymentFacts gathers what the verdict is made of.
func (s *Server) paymentFacts(d store.Dossier) views.PaymentFacts {
	p := d.Payment
	f := views.PaymentFacts{ID: p.ID.String(), OrderRef: p.OrderRef, Provider: p.Provider, Status: string(p.Status),
		Reason: p.StatusReason, Evidence: p.StatusEvidence, Review: p.NeedsReview, Amount: p.Amount, Currency: p.Currency,
		DecidedAt: p.UpdatedAt, NextAt: p.NextCheckAt, NextWhy: p.NextCheckWhy, NothingCanLook: !s.canAsk(p)}
	f.Authorised, f.AuthorisedUntil, f.Captured = p.AuthorisedAmount, p.AuthorisedUntil, p.CaptureAmount
	if p.SettledAt != nil {
		f.DecidedAt = *p.SettledAt
	}
	// The latest send that left this machine is what we know about; a try that did not
	// leave after it says nothing about the money.
	for _, a := range d.Attempts {
		if at := sentAt(a); at != nil {
			f.SentAt, f.HTTPStatus = at, a.HTTPStatus
		}
	}
	if p.StatusEvidence == string(store.ByOperator) {
		f.DecidedBy = decidedBy(d)
	}
	if slices.Contains(p.NeedsReview, store.ReviewAmountMismatch) {
		for _, o := range d.Objects {
			if o.Amount != 0 && (o.Amount != p.Took().Amount || o.Currency != p.Currency) {
				f.TheirAmount, f.TheirCurrency = o.Amount, o.Currency
			}
		}
	}
	refundsOfPayment(&f, d)
	return f
}

// sentAt is when an attempt's first byte left; for one without an outcome, when it was
// marked, as it may have been sent. Nil: provably nothing left.
func sentAt(a store.Attempt) *time.Time {
	switch {
	case a.FirstByteSentAt != nil:
		return a.FirstByteSentAt
	case a.Outcome == "" || (a.WireSends == 0 && a.Outcome == string(provider.Unknown)):
		return &a.MarkedAt
	}
	return nil
}

// decidedBy names the person behind the latest decision.
func decidedBy(d store.Dossier) string {
	for _, e := range slices.Backward(d.Decisions) {
		if e.Source == "operator" && e.FromStatus != e.ToStatus {
			return d.Names[e.Actor]
		}
	}
	return ""
}

// paymentActions lists what may be done now. A final payment without review has none,
// and no payment ever has "charge again".
func (s *Server) paymentActions(p store.Payment, needs string) []views.ActionLink {
	path := views.PaymentPath(p.ID.String())
	open := !p.Status.Final() || len(p.NeedsReview) > 0
	var out []views.ActionLink
	if open && s.canAsk(p) {
		label := "payment.act.reconcile"
		if s.replays(p) {
			label = "payment.act.replay"
		}
		out = append(out, views.ActionLink{Label: label, Href: path + "/reconcile", Kind: "primary", Icon: "refresh"})
	}
	switch {
	case p.Status == store.Unknown:
		out = append(out,
			views.ActionLink{Label: "payment.act.paid", Href: path + "/resolve?to=succeeded", Needs: needs},
			views.ActionLink{Label: "payment.act.failed", Href: path + "/resolve?to=failed", Needs: needs})
	case len(p.NeedsReview) > 0:
		out = append(out, views.ActionLink{Label: "payment.act.settle", Href: path + "/resolve?to=" + string(p.Status), Needs: needs})
	}
	return out
}

func paymentTerms(d store.Dossier) views.PaymentTerms {
	p := d.Payment
	t := views.PaymentTerms{ProviderPaymentID: p.ProviderPaymentID, CustomerName: p.CustomerName, CustomerEmail: p.CustomerEmail,
		Description: p.Description, ClientID: p.ClientID, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
		UnknownSince: p.UnknownSince, Lookups: p.Lookups, Version: p.Version}
	if name := d.Names["client:"+p.ClientID]; name != "" {
		t.ClientID = name
	}
	for _, a := range d.Attempts {
		t.Sends += a.WireSends
	}
	return t
}

// replayKey is the key sent to the provider, if it honours keys.
func (s *Server) replayKey(d store.Dossier) *views.ReplayKey {
	if len(d.Attempts) == 0 {
		return nil
	}
	if a, ok := s.cfg.Registry.Get(d.Payment.Provider); ok && !a.Capabilities().IdempotencyKeys {
		return nil
	}
	return &views.ReplayKey{Key: d.Attempts[0].OperationKey, Until: d.Attempts[0].ReplayUntil}
}

func walletEffect(d store.Dossier) *views.WalletEffect {
	if d.Wallet == nil {
		return nil
	}
	w := &views.WalletEffect{ID: d.Wallet.ID.String(), Owner: d.Wallet.OwnerRef, Currency: d.Wallet.Currency,
		Failed: d.Payment.Status == store.Failed}
	for _, e := range d.Entries {
		w.Entries = append(w.Entries, views.WalletMove{Amount: e.Amount, Balance: e.BalanceAfter, At: e.CreatedAt, OperationID: e.OperationID})
	}
	return w
}

func attemptView(a store.Attempt) views.AttemptView {
	return views.AttemptView{ID: a.ID.String(), Seq: a.Seq, Outcome: a.Outcome, Reason: a.ErrorClass, Health: a.BreakerVerdict,
		Worker: a.Worker, HTTPStatus: a.HTTPStatus, ContentType: a.ContentType, Server: a.Server, RequestID: a.ProviderRequestID,
		URL: a.FinalURL, Request: masked(a.Request), RequestHash: digest(a.Request), Body: masked(a.ResponseBody), BodySize: len(a.ResponseBody), Sends: a.WireSends,
		MarkedAt: a.MarkedAt, SentAt: a.FirstByteSentAt, AnsweredAt: a.FirstByteAt, FinishedAt: a.FinishedAt}
}

// pretty indents JSON for reading and leaves everything else as it is, up to shownBody.
func pretty(body []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, body, "", "  ") != nil {
		out.Reset()
		out.Write(body)
	}
	text := strings.ToValidUTF8(out.String(), "\uFFFD")
	if len(text) > shownBody {
		text = strings.ToValidUTF8(text[:shownBody], "") + "…"
	}
	return text
}
