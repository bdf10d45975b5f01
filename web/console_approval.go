package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// registerApprovals adds what a second person does about a proposal.
func (s *Server) registerApprovals(operator *echo.Group) {
	for _, what := range []string{"approve", "decline"} {
		operator.GET(views.PathQueue+"/:id/"+what, s.confirmProposal(what))
		operator.POST(views.PathQueue+"/:id/"+what, s.postProposal(what))
	}
}

// needsSecond reports whether marking the payment so is a decision of two people.
func (s *Server) needsSecond(p store.Payment, to store.Status) bool {
	limit, ok := s.cfg.FourEyes[p.Currency]
	if !ok {
		limit, ok = s.cfg.FourEyes["*"]
	}
	return ok && to != p.Status && p.Amount > limit
}

// decide resolves the payment, or proposes it when that takes two. proposed says which.
func (s *Server) decide(ctx context.Context, p store.Payment, r store.ResolveParams) (proposed bool, err error) {
	if !s.needsSecond(p, r.To) {
		_, err = s.cfg.Store.Resolve(ctx, r)
		return false, err
	}
	_, err = s.cfg.Store.Propose(ctx, r)
	return true, err
}

// proposalView describes the standing proposal to a reader; nil: there is none.
func (s *Server) proposalView(p store.Payment, prop store.Proposal, me uuid.UUID) *views.ProposalView {
	if !prop.Stands(p, s.cfg.Now()) {
		return nil
	}
	return &views.ProposalView{PaymentID: p.ID.String(), To: string(prop.To), Name: prop.Name, Reason: prop.Reason, Evidence: prop.Evidence,
		At: prop.At, ExpiresAt: prop.ExpiresAt, Mine: prop.By == me}
}

// standingProposal puts the proposal on a payment's page, and takes away the buttons that
// would be refused meanwhile. me is the reader; Nil: whoever, and the page only says where
// to decide.
func (s *Server) standingProposal(ctx context.Context, p store.Payment, me uuid.UUID, needs string, v *views.PaymentDetail) error {
	if p.Status != store.Unknown {
		return nil
	}
	prop, err := s.cfg.Store.ProposalOn(ctx, p.ID)
	if err != nil {
		return err
	}
	if v.Proposal = s.proposalView(p, prop, me); v.Proposal == nil {
		return nil
	}
	v.Proposal.Elsewhere, v.ProposalNeeds = me == uuid.Nil, needs
	resolve := views.PaymentPath(p.ID.String()) + "/resolve"
	v.Actions = slices.DeleteFunc(v.Actions, func(a views.ActionLink) bool { return strings.HasPrefix(a.Href, resolve) })
	return nil
}

func (s *Server) confirmProposal(what string) echo.HandlerFunc {
	return func(c echo.Context) error {
		p, err := s.paymentParam(c)
		if err != nil {
			return err
		}
		return s.renderProposal(c, http.StatusOK, p, what, "")
	}
}

// renderProposal shows what is proposed, by whom and on what grounds.
func (s *Server) renderProposal(c echo.Context, status int, p store.Payment, what, problem string) error {
	ctx := s.viewContext(c)
	prop, err := s.cfg.Store.ProposalOn(ctx, p.ID)
	if err != nil {
		return err
	}
	path := views.AnswerPath(p.ID.String())
	v := s.proposalView(p, prop, s.user(c).ID)
	props := components.ConfirmProps{Title: views.T(ctx, "approval.approve.title"), Problem: problem, Facts: actionFacts(ctx, p),
		Action: templ.SafeURL(path + "/" + what), Cancel: templ.SafeURL(path), ActionID: newActionID(),
		Hidden: []components.HiddenField{{Name: "proposal", Value: prop.ID.String()}}, Submit: views.T(ctx, "approval.approve"), Danger: true}
	if v != nil {
		to := views.Opt(ctx, "status.", v.To)
		props.Lead = views.T(ctx, "approval.lead", "Name", v.Name, "Status", to, "Time", messages.Clock(ctx, v.At))
		props.Facts = append(props.Facts, components.Term{Label: views.T(ctx, "ui.reason"), Value: v.Reason},
			components.Term{Label: views.T(ctx, "act.resolve.evidence"), Value: v.Evidence})
		props.Consequences = []components.Consequence{{Text: views.T(ctx, "act.resolve.moves", "From", views.Opt(ctx, "status.", string(p.Status)), "To", to)},
			{Text: views.T(ctx, "act.resolve.no_calls", "Provider", p.Provider)}}
	}
	if what == "decline" {
		props.Title, props.Submit, props.Danger = views.T(ctx, "approval.decline.title"), views.T(ctx, "approval.decline"), false
		if v != nil && v.Mine {
			props.Title, props.Submit = views.T(ctx, "approval.withdraw.title"), views.T(ctx, "approval.withdraw")
		}
		props.Consequences = []components.Consequence{{Text: views.T(ctx, "approval.decline.back")}}
	}
	switch {
	case v == nil:
		props.Blocked = views.T(ctx, "approval.none")
		props.Consequences = nil
	case what == "approve" && v.Mine:
		props.Blocked = views.T(ctx, "approval.own")
	}
	return s.renderConfirm(c, status, "queue", props.Title, props)
}

func (s *Server) postProposal(what string) echo.HandlerFunc {
	return func(c echo.Context) error {
		p, action, err := s.leaseForm(c)
		if err != nil {
			return err
		}
		proposal, err := uuid.Parse(c.FormValue("proposal"))
		if err != nil {
			return &badRequest{"proposal", "is missing; open the action again"}
		}
		ctx, done := s.viewContext(c), "approval.declined"
		if what == "approve" {
			done = "approval.approved"
			_, err = s.cfg.Store.Approve(ctx, action, proposal, s.actor(c))
		} else {
			err = s.cfg.Store.Decline(ctx, action, proposal, s.actor(c))
		}
		var conflict *store.ConflictError
		var held *store.HeldError
		switch {
		case errors.As(err, &conflict):
			return s.renderProposal(c, http.StatusConflict, s.fresh(ctx, p), what, conflictWords(ctx, conflict))
		case errors.As(err, &held):
			return s.renderProposal(c, http.StatusConflict, p, what, heldWords(ctx, held.Lease))
		case errors.Is(err, store.ErrSecondPerson), errors.Is(err, store.ErrNotAllowed), errors.Is(err, store.ErrNotFound):
			return s.renderProposal(c, http.StatusConflict, s.fresh(ctx, p), what, "")
		case err != nil:
			return err
		}
		s.flash(c, "ok", views.T(ctx, done))
		return c.Redirect(http.StatusSeeOther, views.AnswerPath(p.ID.String()))
	}
}
