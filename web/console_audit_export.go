package web

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views/messages"
)

// auditColumns head the CSV of the audit log; data for programs, in English.
var auditColumns = []string{"id", "at_utc", "at_local", "zone", "actor", "actor_name", "action", "target", "before", "after", "reason", "request_id"}

// streamCSV answers a file that lives longer than a request may and is never cut
// silently: when write fails half way, the last line says so and the connection breaks.
func (s *Server) streamCSV(c echo.Context, name string, write func(ctx context.Context, w *csv.Writer, flush func() error) error) error {
	res := c.Response()
	res.Header().Set(echo.HeaderContentType, "text/csv; charset=utf-8")
	res.Header().Set(echo.HeaderContentDisposition,
		fmt.Sprintf(`attachment; filename="%s-%s.csv"`, name, s.cfg.Now().UTC().Format("20060102-150405")))
	res.Header().Set(echo.HeaderCacheControl, "no-store")
	res.WriteHeader(http.StatusOK)
	w, control := csv.NewWriter(res), http.NewResponseController(res)
	flush := func() error {
		_ = control.SetWriteDeadline(time.Now().Add(time.Minute)) // not every writer can
		w.Flush()
		return w.Error()
	}
	err := write(context.WithoutCancel(s.viewContext(c)), w, flush)
	if err == nil {
		err = flush()
	}
	if err != nil {
		s.brokeOff(c, err)
	}
	return nil
}

// exportAudit streams the filtered audit log, newest first.
func (s *Server) exportAudit(c echo.Context) error {
	q, err := readAuditQuery(c)
	if err != nil {
		return err
	}
	return s.streamCSV(c, "audit", func(ctx context.Context, w *csv.Writer, flush func() error) error {
		zone := messages.From(ctx).Zone
		if err := w.Write(auditColumns); err != nil {
			return err
		}
		for before, more := q.before, true; more; {
			var list []store.AuditEntry
			if list, more, err = s.cfg.Store.ListAudit(ctx, q.filter, before, exportBatch); err != nil {
				return err
			}
			for _, a := range list {
				if err := w.Write(auditRecord(a, zone)); err != nil {
					return err
				}
				before = a.ID
			}
			if err := flush(); err != nil {
				return err
			}
		}
		return nil
	})
}

func auditRecord(a store.AuditEntry, zone *time.Location) []string {
	row := []string{strconv.FormatInt(a.ID, 10), stamp(&a.At, time.UTC), stamp(&a.At, zone), zone.String(), a.Actor, a.ActorName,
		a.Action, a.Target, auditJSON(a.Before), auditJSON(a.After), a.Reason, a.RequestID}
	for i, v := range row {
		row[i] = formulaSafe(v)
	}
	return row
}

func auditJSON(m map[string]any) string {
	if len(m) == 0 {
		return ""
	}
	body, err := json.Marshal(m)
	if err != nil {
		return "" // it came out of JSON
	}
	return string(body)
}
