package web

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views/messages"
)

// exportColumns head the CSV; they are data for programs and stay in English.
var exportColumns = []string{"payment_id", "order_ref", "status", "status_reason", "needs_review", "provider",
	"provider_payment_id", "amount_minor", "amount", "currency", "customer_name", "customer_email",
	"created_at_utc", "created_at_local", "settled_at_utc", "settled_at_local", "zone",
	"captured_minor", "refunded_minor", "refunded"}

// exportPayments streams the filtered list as CSV. Nothing is cut: when the reading
// fails half way, the file says so in its last line and the connection is broken off, so
// that neither a person nor a program takes a short file for a whole one.
func (s *Server) exportPayments(c echo.Context) error {
	ctx := s.viewContext(c)
	q := s.readPaymentQuery(ctx, c.QueryParams())
	if len(q.form.Errors) > 0 {
		var bad fieldErrors
		for field, reason := range q.form.Errors {
			bad = append(bad, fieldError{field, reason})
		}
		return bad
	}
	res := c.Response()
	res.Header().Set(echo.HeaderContentType, "text/csv; charset=utf-8")
	res.Header().Set(echo.HeaderContentDisposition,
		fmt.Sprintf(`attachment; filename="payments-%s.csv"`, s.cfg.Now().UTC().Format("20060102-150405")))
	res.Header().Set(echo.HeaderCacheControl, "no-store")
	res.WriteHeader(http.StatusOK)
	if err := s.writeExport(ctx, c, q.filter); err != nil {
		s.brokeOff(c, err)
	}
	return nil
}

// brokeOff ends an export in the middle so that nobody takes it for a whole one: its last
// line says so, and the connection is cut. A reader who left is no fault of ours.
func (s *Server) brokeOff(c echo.Context, err error) {
	if c.Request().Context().Err() == nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		s.cfg.Log.Error("export broke off", "request_id", requestIDOf(c), "error", err)
	}
	_ = csv.NewWriter(c.Response()).WriteAll([][]string{{exportIncomplete, "request " + requestIDOf(c)}})
	_ = http.NewResponseController(c.Response()).Flush()
	panic(http.ErrAbortHandler)
}

// exportIncomplete begins the last line of an export that broke off. Like the columns it
// is for programs too and stays in English.
const exportIncomplete = "INCOMPLETE: the export broke off here; rows are missing below"

// exportBatch is how many rows are written at once.
const exportBatch = 200

// writeExport lives longer than a request may: each batch of rows renews the write
// deadline, and a reader that left ends it at the next write.
func (s *Server) writeExport(ctx context.Context, c echo.Context, f store.PaymentFilter) error {
	zone := messages.From(ctx).Zone
	w := csv.NewWriter(c.Response())
	if err := w.Write(exportColumns); err != nil {
		return err
	}
	var batch []store.Payment
	control := http.NewResponseController(c.Response())
	flush := func() error {
		err := s.writeBatch(context.WithoutCancel(ctx), w, batch, zone)
		batch = batch[:0]
		_ = control.SetWriteDeadline(time.Now().Add(time.Minute)) // not every writer can
		return err
	}
	err := s.cfg.Store.StreamPayments(context.WithoutCancel(ctx), f, func(p store.Payment) error {
		if batch = append(batch, p); len(batch) < exportBatch {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// writeBatch writes payments with what was given back of them.
func (s *Server) writeBatch(ctx context.Context, w *csv.Writer, batch []store.Payment, zone *time.Location) error {
	ids := make([]uuid.UUID, len(batch))
	for i, p := range batch {
		ids[i] = p.ID
	}
	figures, err := s.cfg.Store.RefundTotals(ctx, ids)
	if err != nil {
		return err
	}
	for _, p := range batch {
		if err := w.Write(exportRow(p, figures[p.ID], zone)); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func exportRow(p store.Payment, f store.Refundable, zone *time.Location) []string {
	row := []string{p.ID.String(), p.OrderRef, string(p.Status), p.StatusReason, strings.Join(p.NeedsReview, " "), p.Provider,
		p.ProviderPaymentID, strconv.FormatInt(p.Amount, 10), provider.FormatMinor(p.Amount, p.Currency), p.Currency,
		p.CustomerName, p.CustomerEmail, stamp(&p.CreatedAt, time.UTC), stamp(&p.CreatedAt, zone),
		stamp(p.SettledAt, time.UTC), stamp(p.SettledAt, zone), zone.String(),
		strconv.FormatInt(f.Captured, 10), strconv.FormatInt(f.Refunded, 10), provider.FormatMinor(f.Refunded, p.Currency)}
	for i, v := range row {
		row[i] = formulaSafe(v)
	}
	return row
}

func stamp(t *time.Time, zone *time.Location) string {
	if t == nil {
		return ""
	}
	return t.In(zone).Format(time.RFC3339)
}

// formulaSafe keeps a spreadsheet from running a cell that somebody outside wrote.
func formulaSafe(v string) string {
	if v != "" && strings.ContainsAny(v[:1], "=+-@\t\r\n") {
		return "'" + v
	}
	for _, wide := range []string{"＝", "＋", "－", "＠"} { // spreadsheets in Japanese locales read these too
		if strings.HasPrefix(v, wide) {
			return "'" + v
		}
	}
	return v
}
