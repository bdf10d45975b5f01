package web

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
)

// JobPages are pages about single jobs of the queue, served below views.PathJobPages.
type JobPages interface {
	http.Handler
	// Start begins what the pages need in the background, until ctx ends.
	Start(ctx context.Context) error
}

// jobPagePolicy is contentPolicy with styles that the pages' own scripts write; no inline
// script runs there either, and no other page is loosened.
var jobPagePolicy = strings.Replace(contentPolicy, "style-src 'self'", "style-src 'self' 'unsafe-inline'", 1)

// registerJobPages puts the pages behind the sign-in, for admins, and lets them read only:
// what people change has to stand in the audit log with its reason, and those pages know
// neither.
func (s *Server) registerJobPages() {
	if s.cfg.JobPages == nil {
		return
	}
	var once sync.Once
	ctx, cancel := context.WithCancel(context.Background())
	s.onClose(cancel)
	show := func(c echo.Context) error {
		once.Do(func() { // nobody may ever look: its counting costs queries
			if err := s.cfg.JobPages.Start(ctx); err != nil {
				s.cfg.Log.ErrorContext(ctx, "job pages", slog.Any("error", err))
			}
		})
		h := c.Response().Header()
		h.Set(echo.HeaderCacheControl, "no-store")
		h.Set(echo.HeaderContentSecurityPolicy, jobPagePolicy)
		s.cfg.JobPages.ServeHTTP(c.Response(), c.Request())
		return nil
	}
	admin := s.console.Group("", s.requireRole(store.RoleAdmin))
	for _, path := range []string{views.PathJobPages, views.PathJobPages + "/*"} {
		admin.GET(path, show)
		admin.Match([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, path, refuseJobChange)
	}
}

// refuseJobChange answers in the form those pages show.
func refuseJobChange(c echo.Context) error {
	return c.JSON(http.StatusForbidden, map[string]string{
		"message": "these pages only show: pause and resume queues on Fusebox's own page, ask about a payment on the payment's page"})
}
