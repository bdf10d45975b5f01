package web

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// registerQueue adds the work queue. Everybody may take a payment: support asks the
// provider and writes notes, operators decide.
func (s *Server) registerQueue() {
	s.console.GET(views.PathQueue, s.workQueuePage)
	s.console.GET(views.PathQueue+".csv", s.exportQueue)
	s.console.POST(views.PathQueue+"/next", s.takeNext)
	s.console.GET(views.PathQueue+"/:id", s.answerPage)
	s.console.GET(views.PathQueue+"/:id/take", s.confirmTake)
	s.console.POST(views.PathQueue+"/:id/take", s.postTake)
	s.console.GET(views.PathQueue+"/:id/release", s.confirmRelease)
	s.console.POST(views.PathQueue+"/:id/release", s.postRelease)
}

// queueRows is how many payments the work queue shows at once.
const queueRows = 200

// answerReasons are what the queue can be narrowed to: unknown, or one review reason.
var answerReasons = append([]string{string(store.Unknown)}, reviewReasons...)

// paramMe marks the address of a fragment that is about one person: their leases are
// "yours" in it. Other people's fragments are shared.
const paramMe = "me"

// queueQuery is what the address asks for.
type queueQuery struct {
	filter store.AnswerFilter
	values url.Values // of the links
}

func (s *Server) readQueueQuery(c echo.Context) (q queueQuery, err error) {
	f := &q.filter
	f.Provider, f.Reason, f.Lease, f.Me = c.QueryParam("provider"), c.QueryParam("reason"), c.QueryParam("lease"), s.user(c).ID
	switch {
	case f.Provider != "" && !slices.Contains(s.providerNames(), f.Provider):
		return q, invalid("provider", "is not configured")
	case f.Reason != "" && !slices.Contains(answerReasons, f.Reason):
		return q, invalid("reason", "is not a reason to be here")
	case f.Lease != "" && f.Lease != store.LeaseMine && f.Lease != store.LeaseNone:
		return q, invalid("lease", "must be mine or untaken")
	}
	switch aged := c.QueryParam("aged"); aged {
	case "":
	case "yes":
		f.Aged = true
	default:
		return q, invalid("aged", "must be yes")
	}
	for _, name := range []string{"provider", "reason", "lease", "aged"} {
		q.values = with(q.values, name, c.QueryParam(name))
	}
	return q, nil
}

// readMe checks whose fragment is asked for: one's own, or the shared one.
func (s *Server) readMe(c echo.Context) (own bool, err error) {
	me := c.QueryParam(paramMe)
	if me != "" && me != s.user(c).ID.String() {
		return false, invalid(paramMe, "is somebody else")
	}
	return me != "", nil
}

// workQueuePage answers the payments that need an answer.
func (s *Server) workQueuePage(c echo.Context) error {
	q, err := s.readQueueQuery(c)
	if err != nil {
		return err
	}
	c.Response().Header().Add(echo.HeaderVary, "HX-Request")
	if isHTMX(c) {
		own, err := s.readMe(c)
		if err != nil {
			return err
		}
		if !own && q.filter.Lease == store.LeaseMine {
			return invalid(paramMe, "is missing; open the page again")
		}
		return s.fragment(c, store.TopicPayments, func(ctx context.Context, rev string) (templ.Component, error) {
			v, err := s.workQueue(ctx, q, own, rev)
			return views.QueueList(v), err
		})
	}
	ctx := s.viewContext(c)
	list, err := s.workQueue(ctx, q, true, s.a.hub.rev(store.TopicPayments))
	if err != nil {
		return err
	}
	f := q.filter
	return s.render(c, http.StatusOK, views.Queue(views.QueueView{
		Page:   s.page(c, "queue", views.T(ctx, "queue.title")),
		Filter: views.AnswerFilter{Provider: f.Provider, Reason: f.Reason, Lease: f.Lease, Aged: f.Aged, Providers: s.providerNames(), Reasons: answerReasons},
		Export: address(views.PathQueue+".csv", q.values), ActionID: newActionID(), List: list}))
}

// workQueue reads the queue for its page or fragment. The fragment of somebody who holds
// something in it is their own, as it says "you"; all others share one.
func (s *Server) workQueue(ctx context.Context, q queueQuery, own bool, rev string) (views.QueueListView, error) {
	waiting, total, err := s.cfg.Store.WorkQueue(ctx, q.filter, queueRows)
	if err != nil {
		return views.QueueListView{}, err
	}
	v := views.QueueListView{Total: int64(total), Capped: messages.Bounded(ctx, int64(total), store.CountCap)}
	mine := q.filter.Lease == store.LeaseMine
	var payments []store.Payment
	for _, w := range waiting {
		row := views.AnswerRow{PaymentRow: paymentRow(w.Payment), Since: w.Since, Proposed: w.Proposed}
		if row.Lease = holderView(w.Lease, q.filter.Me); row.Lease != nil {
			row.Lease.Mine = row.Lease.Mine && own
			mine = mine || row.Lease.Mine
		}
		v.Rows = append(v.Rows, row)
		payments = append(payments, w.Payment)
	}
	if err := s.countNotes(ctx, payments, func(i, n int) { v.Rows[i].Notes = n }); err != nil {
		return v, err
	}
	values := q.values
	if mine && own {
		values = with(values, paramMe, q.filter.Me.String())
	}
	v.Live = components.LiveRegion{ID: "queue-list", Topic: store.TopicPayments, URL: string(address(views.PathQueue, values)), Rev: rev}
	f := q.filter
	if v.Filtered = f.Aged || f.Reason+f.Lease != ""; v.Filtered {
		return v, nil
	}
	err = s.queueChildren(ctx, f.Provider, &v)
	return v, err
}

func holderView(l *store.Lease, me uuid.UUID) *views.HolderView {
	if l == nil {
		return nil
	}
	return &views.HolderView{Name: l.Name, Until: l.Until, Mine: l.Holder == me}
}

// queueChildren adds the refunds, captures and voids that need an answer and the open disputes.
func (s *Server) queueChildren(ctx context.Context, name string, v *views.QueueListView) error {
	operations, total, err := s.cfg.Store.OperationQueue(ctx, name, queueRows)
	if err != nil {
		return err
	}
	v.RefundTotal, v.RefundsCapped = int64(total), messages.Bounded(ctx, int64(total), store.CountCap)
	for _, w := range operations {
		row := refundFacts(w.Operation)
		row.Kind, row.OrderRef, row.Since = actionKind(w.Operation), w.OrderRef, w.Since
		v.Refunds = append(v.Refunds, row)
	}
	disputes, more, err := s.cfg.Store.DisputeQueue(ctx, name, queueRows)
	for _, d := range disputes {
		row := disputeView(d.Dispute)
		row.OrderRef = d.OrderRef
		v.Disputes = append(v.Disputes, row)
	}
	v.MoreDisputes = more
	return err
}

// queueColumns head the CSV; they are data for programs and stay in English.
var queueColumns = []string{"payment_id", "order_ref", "status", "status_reason", "needs_review", "provider", "provider_payment_id",
	"amount_minor", "amount", "currency", "waiting_since_utc", "waiting_since_local", "zone", "held_by", "held_until_utc"}

// exportQueue streams the queue as CSV, the most urgent first. Nothing is cut; when the
// reading fails half way, the file says so in its last line.
func (s *Server) exportQueue(c echo.Context) error {
	q, err := s.readQueueQuery(c)
	if err != nil {
		return err
	}
	zone := messages.From(s.viewContext(c)).Zone
	res := c.Response()
	res.Header().Set(echo.HeaderContentType, "text/csv; charset=utf-8")
	res.Header().Set(echo.HeaderContentDisposition,
		fmt.Sprintf(`attachment; filename="queue-%s.csv"`, s.cfg.Now().UTC().Format("20060102-150405")))
	res.Header().Set(echo.HeaderCacheControl, "no-store")
	res.WriteHeader(http.StatusOK)
	w, control, n := csv.NewWriter(res), http.NewResponseController(res), 0
	err = w.Write(queueColumns)
	if err == nil {
		err = s.cfg.Store.StreamAnswers(context.WithoutCancel(c.Request().Context()), q.filter, func(row store.Waiting) error {
			if n++; n%exportBatch == 0 {
				w.Flush()
				_ = control.SetWriteDeadline(time.Now().Add(time.Minute)) // not every writer can
			}
			return w.Write(queueRow(row, zone))
		})
	}
	if w.Flush(); err == nil {
		err = w.Error()
	}
	if err != nil {
		s.cfg.Log.Error("export broke off", "request_id", requestIDOf(c), "error", err)
		_ = csv.NewWriter(res).WriteAll([][]string{{exportIncomplete, "request " + requestIDOf(c)}})
		_ = control.Flush()
		panic(http.ErrAbortHandler)
	}
	return nil
}

func queueRow(w store.Waiting, zone *time.Location) []string {
	p, by, until := w.Payment, "", ""
	if w.Lease != nil {
		by, until = w.Lease.Name, stamp(&w.Lease.Until, time.UTC)
	}
	row := []string{p.ID.String(), p.OrderRef, string(p.Status), p.StatusReason, strings.Join(p.NeedsReview, " "), p.Provider,
		p.ProviderPaymentID, strconv.FormatInt(p.Amount, 10), provider.FormatMinor(p.Amount, p.Currency), p.Currency,
		stamp(&w.Since, time.UTC), stamp(&w.Since, zone), zone.String(), by, until}
	for i, v := range row {
		row[i] = formulaSafe(v)
	}
	return row
}
