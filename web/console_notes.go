package web

import (
	"context"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// registerNotes adds notes, revealing and the evidence to print. Everybody may write a
// note; what a provider answered in full is for those who decide.
func (s *Server) registerNotes(operator *echo.Group) {
	s.console.GET(views.PathPayments+"/:id/note", s.noteForm)
	s.console.POST(views.PathPayments+"/:id/note", s.postNote)
	s.console.GET(views.PathPayments+"/:id/evidence", s.evidencePage)
	operator.GET(views.PathPayments+"/:id/reveal", s.confirmReveal)
	operator.POST(views.PathPayments+"/:id/reveal", s.postReveal)
}

// noteForm asks for the note's text.
func (s *Server) noteForm(c echo.Context) error {
	p, err := s.paymentParam(c)
	if err != nil {
		return err
	}
	return s.renderNote(c, http.StatusOK, p, newActionID(), "", "")
}

// paymentParam reads the payment a path names.
func (s *Server) paymentParam(c echo.Context) (store.Payment, error) {
	id, err := idParam(c)
	if err != nil {
		return store.Payment{}, err
	}
	return s.cfg.Store.Payment(c.Request().Context(), id)
}

func (s *Server) renderNote(c echo.Context, status int, p store.Payment, action, text, problem string) error {
	ctx := s.viewContext(c)
	path := views.PaymentPath(p.ID.String())
	props := components.ConfirmProps{Title: views.T(ctx, "note.title"), Lead: views.T(ctx, "note.lead"), Facts: actionFacts(ctx, p),
		Consequences: []components.Consequence{{Text: views.T(ctx, "note.forever")}, {Text: views.T(ctx, "note.no_change")}},
		Action:       templ.SafeURL(path + "/note"), Cancel: templ.SafeURL(path), ActionID: action, Submit: views.T(ctx, "note.submit"),
		Reason: &components.Field{ID: "note", Label: views.T(ctx, "note.text"), Value: text, Error: problem, Required: true, Max: store.MaxNote, Rows: 5,
			Hint: views.T(ctx, "note.hint", "N", views.Num(ctx, store.MaxNote))}}
	if problem != "" {
		props.Errors = []components.FieldError{{FieldID: "note", Text: views.T(ctx, "note.text") + ": " + problem}}
	}
	return s.renderConfirm(c, status, "payments", props.Title, props)
}

// postNote adds the note, once per action id.
func (s *Server) postNote(c echo.Context) error {
	p, err := s.paymentParam(c)
	if err != nil {
		return err
	}
	action, err := uuid.Parse(c.FormValue("action_id"))
	if err != nil {
		return &badRequest{"action_id", "is missing; open the action again"}
	}
	ctx := s.viewContext(c)
	text := strings.TrimSpace(strings.ReplaceAll(c.FormValue("note"), "\r\n", "\n"))
	if problem := badNote(ctx, text); problem != "" {
		return s.renderNote(c, http.StatusUnprocessableEntity, p, action.String(), text, problem)
	}
	if _, err := s.cfg.Store.AddNote(ctx, action, p.ID, text, s.actor(c)); err != nil {
		return err
	}
	s.flash(c, "ok", views.T(ctx, "note.done"))
	return c.Redirect(http.StatusSeeOther, views.PaymentPath(p.ID.String()))
}

// badNote says what is wrong with a note; empty: nothing. Card numbers have no place in
// text that everybody reads and nobody can take back.
func badNote(ctx context.Context, text string) string {
	n := utf8.RuneCountInString(text)
	switch redacted := provider.RedactText(text); {
	case n == 0:
		return views.T(ctx, "act.bad.required")
	case n > store.MaxNote:
		return views.T(ctx, "act.bad.long", "N", store.MaxNote)
	case strings.Contains(redacted, "[card ") && !strings.Contains(text, "[card "):
		_, card, _ := strings.Cut(redacted, "[card ")
		card, _, _ = strings.Cut(card, "]")
		return views.T(ctx, "note.card", "Card", "… "+card)
	}
	return ""
}
