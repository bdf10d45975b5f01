package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// alertParam reads the alert the path names.
func (s *Server) alertParam(c echo.Context) (store.Alert, error) {
	id, err := pageNumber(c.Param("id"))
	if err != nil || id == 0 {
		return store.Alert{}, store.ErrNotFound
	}
	return s.cfg.Store.Alert(c.Request().Context(), id)
}

// confirmAcknowledge asks before a person takes notice of one alert.
func (s *Server) confirmAcknowledge(c echo.Context) error {
	a, err := s.alertParam(c)
	if err != nil {
		return err
	}
	return s.renderAcknowledge(c, http.StatusOK, a, newActionID(), "", "")
}

func (s *Server) renderAcknowledge(c echo.Context, status int, a store.Alert, action, note, problem string) error {
	ctx := s.viewContext(c)
	row := alertRow(a)
	props := acknowledgeProps(ctx, note, problem)
	props.Title, props.Lead, props.ActionID = views.T(ctx, "alerts.ack.title"), views.T(ctx, "alerts.ack.lead"), action
	props.Action = templ.SafeURL(views.PathAlerts + "/" + strconv.FormatInt(a.ID, 10) + "/acknowledge")
	props.Facts = []components.Term{{Label: views.T(ctx, "alerts.what"), Value: views.AlertTitle(ctx, row)},
		{Label: views.T(ctx, "alerts.severity"), Body: components.Severity(a.Severity)},
		{Label: views.T(ctx, "alerts.when"), Body: components.Absolute(a.CreatedAt)}}
	if a.Known != nil { // who was first is the answer; nothing is left to do
		props.Problem, props.Blocked, props.Lead, props.Consequences, props.Reason = knownWords(ctx, *a.Known), views.T(ctx, "alerts.ack.known"), "", nil, nil
	}
	return s.renderConfirm(c, status, "alerts", props.Title, props)
}

// acknowledgeProps is what both forms have in common.
func acknowledgeProps(ctx context.Context, note, problem string) components.ConfirmProps {
	props := components.ConfirmProps{Cancel: views.PathAlerts, Submit: views.T(ctx, "alerts.ack"),
		Consequences: []components.Consequence{{Text: views.T(ctx, "alerts.ack.name")}, {Text: views.T(ctx, "alerts.ack.stays")}, {Text: views.T(ctx, "alerts.ack.nothing")}},
		Reason: &components.Field{ID: "note", Label: views.T(ctx, "alerts.ack.note"), Hint: views.T(ctx, "alerts.ack.note_hint"), Value: note,
			Error: problem, Max: store.MaxAlertNote}}
	if problem != "" {
		props.Errors = []components.FieldError{{FieldID: "note", Text: views.T(ctx, "alerts.ack.note") + ": " + problem}}
	}
	return props
}

// knownWords say who was first: nothing was changed.
func knownWords(ctx context.Context, k store.Acknowledged) string {
	text := views.T(ctx, "alerts.ack.already", "Name", k.Name, "Time", messages.Clock(ctx, k.At))
	if k.Note != "" {
		text += " " + views.T(ctx, "alerts.ack.said", "Note", k.Note)
	}
	return text
}

// readNote reads the form's id and note; problem says what is wrong with the note.
func readNote(ctx context.Context, c echo.Context) (action uuid.UUID, note, problem string, err error) {
	if action, err = uuid.Parse(c.FormValue("action_id")); err != nil {
		return action, "", "", &badRequest{"action_id", "is missing; open the action again"}
	}
	note = strings.TrimSpace(strings.ReplaceAll(c.FormValue("note"), "\r\n", "\n"))
	if utf8.RuneCountInString(note) > store.MaxAlertNote {
		problem = views.T(ctx, "act.bad.long", "N", store.MaxAlertNote)
	} else if note != "" {
		problem = badNote(ctx, note)
	}
	return action, note, problem, nil
}

// postAcknowledge takes notice, once per action id. Whoever comes second sees who was first.
func (s *Server) postAcknowledge(c echo.Context) error {
	a, err := s.alertParam(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	action, note, problem, err := readNote(ctx, c)
	if err != nil {
		return err
	}
	if problem != "" {
		return s.renderAcknowledge(c, http.StatusUnprocessableEntity, a, action.String(), note, problem)
	}
	var known *store.AcknowledgedError
	err = s.cfg.Store.AcknowledgeAlert(ctx, action, a.ID, note, s.actor(c))
	if errors.As(err, &known) {
		a.Known = &known.Acknowledged
		return s.renderAcknowledge(c, http.StatusConflict, a, action.String(), note, "")
	}
	if err != nil {
		return err
	}
	s.flash(c, "ok", views.T(ctx, "alerts.ack.done"))
	return c.Redirect(http.StatusSeeOther, views.PathAlerts)
}

// allOpen is which alerts are meant by all.
type allOpen struct {
	severity string
	upTo     int64
	count    int
}

func (s *Server) readAllOpen(c echo.Context) (all allOpen, err error) {
	all.severity = c.FormValue("severity")
	if !contains(severities, all.severity) {
		return all, &badRequest{"severity", "is not one of critical, warning, info"}
	}
	if all.upTo, err = strconv.ParseInt(c.FormValue("up_to"), 10, 64); err != nil || all.upTo < 1 {
		return all, &badRequest{"up_to", "is missing; open the action again"}
	}
	all.count, err = s.cfg.Store.CountOpenAlerts(c.Request().Context(), all.severity, all.upTo)
	return all, err
}

// confirmAcknowledgeAll asks before a person takes notice of everything they were shown.
func (s *Server) confirmAcknowledgeAll(c echo.Context) error {
	all, err := s.readAllOpen(c)
	if err != nil {
		return err
	}
	return s.renderAcknowledgeAll(c, http.StatusOK, all, newActionID(), "", "")
}

func (s *Server) renderAcknowledgeAll(c echo.Context, status int, all allOpen, action, note, problem string) error {
	ctx := s.viewContext(c)
	props := acknowledgeProps(ctx, note, problem)
	props.Title, props.ActionID = views.N(ctx, "alerts.ack_all.title", int64(all.count)), action
	props.Lead, props.Action = views.T(ctx, "alerts.ack_all.lead"), views.PathAlerts+"/acknowledge"
	props.Hidden = []components.HiddenField{{Name: "severity", Value: all.severity}, {Name: "up_to", Value: strconv.FormatInt(all.upTo, 10)}}
	if all.count == 0 {
		props.Blocked, props.Lead, props.Consequences, props.Reason = views.T(ctx, "alerts.ack_all.none"), "", nil, nil
	}
	return s.renderConfirm(c, status, "alerts", props.Title, props)
}

// postAcknowledgeAll takes notice of them, once per action id.
func (s *Server) postAcknowledgeAll(c echo.Context) error {
	all, err := s.readAllOpen(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	action, note, problem, err := readNote(ctx, c)
	if err != nil {
		return err
	}
	if problem != "" {
		return s.renderAcknowledgeAll(c, http.StatusUnprocessableEntity, all, action.String(), note, problem)
	}
	n, err := s.cfg.Store.AcknowledgeAlerts(ctx, action, all.severity, all.upTo, note, s.actor(c))
	if err != nil {
		return err
	}
	s.flash(c, "ok", views.N(ctx, "alerts.ack_all.done", int64(n)))
	return c.Redirect(http.StatusSeeOther, views.PathAlerts)
}
