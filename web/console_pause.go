package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// pauseSpans are how long a pause may last; empty: until a person resumes it.
var pauseSpans = []string{"15m", "1h", "4h", "24h", ""}

const pauseDefault = "1h"

// pauseText names the texts of a verb.
type pauseText struct{ verb, title, lead, submit, done, already string }

var (
	pauseTexts  = pauseText{"pause", "ops.pause.title", "ops.pause.lead", "ops.pause.submit", "ops.pause.done", "ops.pause.already"}
	resumeTexts = pauseText{"resume", "ops.resume.title", "ops.resume.lead", "ops.resume.submit", "ops.resume.done", "ops.resume.already"}
)

// pauseForm is what the confirm page of a pause or resume posts.
type pauseForm struct {
	queue    string
	resume   bool
	lasts    string
	reason   string
	problem  string // why the last try changed nothing
	badWhy   string // what is wrong with the reason
	badLasts string
}

func (f pauseForm) texts() pauseText {
	if f.resume {
		return resumeTexts
	}
	return pauseTexts
}

// registerPauses adds pausing and resuming of provider queues.
func (s *Server) registerPauses(operator *echo.Group) {
	for _, verb := range []string{"pause", "resume"} {
		path := views.PathQueues + "/:class/:provider/" + verb
		resume := verb == "resume"
		operator.GET(path, func(c echo.Context) error { return s.confirmPause(c, resume) })
		operator.POST(path, func(c echo.Context) error { return s.postPause(c, resume) })
	}
}

// queueOf reads which queue the path names. The default queue cannot be paused: webhooks,
// alerts and the sweep that ends pauses run in it.
func (s *Server) queueOf(c echo.Context) (string, error) {
	p, ok := s.settings(c.Param("provider"))
	class := c.Param("class")
	if !ok || !slices.Contains(circuitClasses, class) {
		return "", echo.ErrNotFound
	}
	return class + "_" + p.Name, nil
}

func (s *Server) confirmPause(c echo.Context, resume bool) error {
	queue, err := s.queueOf(c)
	if err != nil {
		return err
	}
	return s.renderPause(c, http.StatusOK, pauseForm{queue: queue, resume: resume, lasts: pauseDefault})
}

// postPause does it if the queue still stands as the person saw it, once per action id.
func (s *Server) postPause(c echo.Context, resume bool) error {
	queue, err := s.queueOf(c)
	if err != nil {
		return err
	}
	ch := store.QueueChange{Queue: queue, By: s.actor(c), Reason: strings.TrimSpace(c.FormValue("reason"))}
	if ch.ActionID, err = uuid.Parse(c.FormValue("action_id")); err != nil {
		return &badRequest{"action_id", "is missing; open the page again"}
	}
	if seen := c.FormValue("seen"); seen != "" {
		if ch.Seen, err = time.Parse(time.RFC3339Nano, seen); err != nil {
			return &badRequest{"seen", "is not a time; open the page again"}
		}
	}
	ctx := s.viewContext(c)
	f := pauseForm{queue: queue, resume: resume, lasts: c.FormValue("for"), reason: ch.Reason}
	if n := len([]rune(f.reason)); n == 0 || n > maxReason {
		f.badWhy = views.T(ctx, "reset.reason_needed")
	}
	do := s.cfg.Store.ResumeQueue
	if !resume {
		do = s.cfg.Store.PauseQueue
		if !slices.Contains(pauseSpans, f.lasts) {
			f.badLasts = views.T(ctx, "act.circuit.for_needed")
		}
		if d, err := time.ParseDuration(f.lasts); err == nil {
			until := s.cfg.Now().Add(d)
			ch.Until = &until
		}
	}
	if f.badWhy != "" || f.badLasts != "" {
		return s.renderPause(c, http.StatusUnprocessableEntity, f)
	}
	if err := do(ctx, ch); errors.Is(err, store.ErrQueueChanged) {
		f.problem = s.pauseConflict(ctx, queue)
		return s.renderPause(c, http.StatusConflict, f)
	} else if err != nil {
		return err
	}
	s.a.hub.touch(topicQueues, topicOverview, topicBanners)
	s.a.now.forget()
	s.flash(c, "ok", views.T(ctx, f.texts().done, "Queue", views.QueueName(ctx, queue)))
	return c.Redirect(http.StatusSeeOther, views.PathQueues)
}

// pauseConflict names who was first.
func (s *Server) pauseConflict(ctx context.Context, queue string) string {
	list, _, err := s.cfg.Store.ListAudit(ctx, store.AuditFilter{Target: "queue:" + queue}, 0, 1)
	if err != nil || len(list) == 0 {
		return views.T(ctx, "ops.pause.changed")
	}
	key := "ops.pause.resumed_by"
	if list[0].Action == "queue.pause" {
		key = "ops.pause.paused_by"
	}
	return views.T(ctx, key, "Who", list[0].ActorName, "Time", messages.Clock(ctx, list[0].At))
}

// renderPause says in numbers what waits and what stopping it means.
func (s *Server) renderPause(c echo.Context, status int, f pauseForm) error {
	ctx := s.viewContext(c)
	pauses, err := s.cfg.Store.QueuePauses(ctx)
	if err != nil {
		return err
	}
	var now *store.QueuePause
	for _, p := range pauses {
		if p.Queue == f.queue {
			now = &p
		}
	}
	texts := f.texts()
	class, name, _ := strings.Cut(f.queue, "_")
	label := views.QueueName(ctx, f.queue)
	title := views.T(ctx, texts.title, "Queue", label)
	props := components.ConfirmProps{Title: title, Problem: f.problem, ActionID: newActionID(), Cancel: views.PathQueues,
		Action: templ.SafeURL(views.QueuePausePath(class, name, texts.verb)), Submit: views.T(ctx, texts.submit), Danger: !f.resume}
	if now != nil {
		props.Facts = pauseFacts(ctx, *now)
		props.Hidden = []components.HiddenField{{Name: "seen", Value: now.At.UTC().Format(time.RFC3339Nano)}}
	}
	if (now != nil) != f.resume {
		props.Blocked = views.T(ctx, texts.already)
		return s.renderConfirm(c, status, "queues", title, props)
	}
	props.Lead = views.T(ctx, texts.lead, "Queue", label)
	if props.Consequences, err = s.pauseConsequences(ctx, f, class, name); err != nil {
		return err
	}
	props.Reason = &components.Field{ID: "reason", Label: views.T(ctx, "ui.reason"), Hint: views.T(ctx, "ui.reason_hint"),
		Value: f.reason, Error: f.badWhy, Required: true, Max: maxReason}
	if f.resume {
		return s.renderConfirm(c, status, "queues", title, props)
	}
	return s.renderFramed(c, status, "queues", title, views.PauseConfirm(props, components.Field{ID: "for",
		Label: views.T(ctx, "act.circuit.for"), Value: f.lasts, Error: f.badLasts, Options: s.pauseOptions(ctx)}))
}

func (s *Server) pauseOptions(ctx context.Context) []components.Option {
	var out []components.Option
	for _, span := range pauseSpans {
		label := views.T(ctx, "ops.pause.forever")
		if d, err := time.ParseDuration(span); err == nil {
			label = views.T(ctx, "act.circuit.for_option", "Span", messages.Span(ctx, d), "Time", messages.Clock(ctx, s.cfg.Now().Add(d)))
		}
		out = append(out, components.Option{Value: span, Label: label})
	}
	return out
}

func pauseFacts(ctx context.Context, p store.QueuePause) []components.Term {
	until := views.T(ctx, "ops.pause.forever")
	if p.Until != nil {
		until = messages.Clock(ctx, *p.Until)
	}
	return []components.Term{
		{Label: views.T(ctx, "ops.pause.by"), Value: p.ByName}, {Label: views.T(ctx, "resume.since"), Body: components.Ago(p.At)},
		{Label: views.T(ctx, "ops.pause.until"), Value: until}, {Label: views.T(ctx, "ui.reason"), Value: p.Reason}}
}

// pauseConsequences count what waits. A stopped lookup queue delays every answer about
// payments whose outcome nobody knows.
func (s *Server) pauseConsequences(ctx context.Context, f pauseForm, class, name string) ([]components.Consequence, error) {
	queues, err := s.cfg.Store.Queues(ctx)
	if err != nil {
		return nil, err
	}
	var q store.QueueDepth
	for _, x := range queues {
		if x.Queue == f.queue {
			q = x
		}
	}
	out := []components.Consequence{{Text: views.N(ctx, "ops.pause.waiting", int64(q.Depth()), "Ready", views.Num(ctx, int64(q.Available)))}}
	if f.resume {
		return append(out, components.Consequence{Text: views.T(ctx, "ops.resume.starts")}), nil
	}
	out = append(out, components.Consequence{Text: views.N(ctx, "ops.pause.running", int64(q.Running))})
	if class == "charge" {
		return append(out, components.Consequence{Text: views.T(ctx, "ops.pause.charge", "Provider", name)}), nil
	}
	waits, err := s.cfg.Store.WaitReasons(ctx)
	if err != nil {
		return nil, err
	}
	unknown := 0
	for _, w := range waits {
		if w.Provider == name && w.Status == store.Unknown {
			unknown += w.Payments
		}
	}
	return append(out, components.Consequence{Tone: components.ToneWarn, Text: views.N(ctx, "ops.pause.unknown", int64(unknown), "Provider", name)}), nil
}

// pauseBanners tell everybody what stands still, by whom and until when.
func pauseBanners(ctx context.Context, pauses []store.QueuePause) (list []views.Banner) {
	for _, p := range pauses {
		key, until := "ops.banner.paused", ""
		if p.Until != nil {
			key, until = "ops.banner.paused_until", messages.Clock(ctx, *p.Until)
		}
		list = append(list, views.Banner{ID: "banner-queue-" + url.PathEscape(p.Queue), Tone: components.ToneWarn, Href: views.PathQueues,
			Text: views.T(ctx, key, "Queue", views.QueueName(ctx, p.Queue), "Who", p.ByName, "Time", messages.Clock(ctx, p.At), "Until", until, "Why", p.Reason)})
	}
	return list
}
