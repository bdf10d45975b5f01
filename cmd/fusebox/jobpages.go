package main

import (
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"riverqueue.com/riverui"

	"fusebox/views"
	"fusebox/web"
)

// jobPages are River's own pages about single jobs; web puts them behind the sign-in and
// lets nobody change anything there.
func jobPages(client *river.Client[pgx.Tx], log *slog.Logger) (web.JobPages, error) {
	h, err := riverui.NewHandler(&riverui.HandlerOpts{
		Endpoints: riverui.NewEndpoints(client, nil), Logger: log, Prefix: views.PathJobPages,
	})
	if err != nil {
		return nil, fmt.Errorf("job pages: %w", err)
	}
	return h, nil
}
