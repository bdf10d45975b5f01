package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// about reads an event's object as a refund or dispute, whichever it is.
func about[T any](t *testing.T, r received) T {
	t.Helper()
	var e struct{ Data T }
	require.NoError(t, json.Unmarshal(r.body, &e), "%s", r.body)
	return e.Data
}

// ofType returns the deliveries of one type.
func (in *inbox) ofType(kind string) (out []received) {
	for _, r := range in.all() {
		if r.Type == kind {
			out = append(out, r)
		}
	}
	return out
}

func TestRefundEvents(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	id := b.charged("p1", "")
	made := b.refund(id, "r1", back("op1")).refund(t)
	in.wait(3)
	require.Equal(t, made, about[refundObject](t, in.ofType("refund.updated")[0]))
	total := in.ofType("charge.refunded")[0]
	require.Equal(t, id, total.Data.ID)
	require.Equal(t, "succeeded", total.Data.Status)
	require.Equal(t, &totals{Captured: 4900, Refunded: 1000}, total.Data.Totals)
	for _, r := range in.all() {
		require.NotEmpty(t, r.header.Get("Fusebox-Signature"))
	}
}

// A refund that is decided later tells of both, and the charge's total moves at the end.
func TestRefundDecidedLater(t *testing.T) {
	t.Parallel()
	for fault, status := range map[Fault]string{Async202: "succeeded", Async202Failed: "failed", ActionCanceled: "canceled"} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			in := newInbox(t)
			b := start(t, into(in))
			id := b.charged("p1", "")
			a := b.refund(id, "r1", back("op1-fault:"+string(fault)))
			require.Equal(t, http.StatusAccepted, a.status)
			require.Equal(t, "processing", a.refund(t).Status)
			require.Eventually(t, func() bool { return len(in.ofType("refund.updated")) == 2 }, patience, glance)
			b.quiet()
			told := map[string]bool{}
			for _, r := range in.ofType("refund.updated") {
				told[about[refundObject](t, r).Status] = true
			}
			require.Equal(t, map[string]bool{"processing": true, status: true}, told)
			require.Equal(t, status, b.refunded(id)[0].Status)
			sum := map[string]int64{"succeeded": 1000}[status]
			require.Equal(t, &totals{Captured: 4900, Refunded: sum}, b.get("/payments/"+id).object(t).Totals)
			require.Len(t, in.ofType("charge.refunded"), int(sum/1000))
			if sum == 0 {
				require.NotNil(t, b.get("/refunds/"+a.refund(t).ID).refund(t).Error)
				require.Equal(t, http.StatusOK, b.refund(id, "r2", refundOrder{"op2", 4900, "EUR"}).status, "what failed holds nothing")
			} else {
				require.Equal(t, http.StatusUnprocessableEntity, b.refund(id, "r2", refundOrder{"op2", 4900, "EUR"}).status)
			}
		})
	}
}

// Webhook faults happen to the events about refunds.
func TestWebhookFaultsOfRefunds(t *testing.T) {
	t.Parallel()
	for fault, check := range map[Fault]func(t *testing.T, b *bench, in *inbox){
		WebhookMissing: func(t *testing.T, _ *bench, in *inbox) {
			require.Empty(t, in.ofType("refund.updated"))
			require.Empty(t, in.ofType("charge.refunded"))
		},
		WebhookDuplicated: func(t *testing.T, _ *bench, in *inbox) {
			require.Eventually(t, func() bool { return len(in.ofType("refund.updated")) == 3 }, patience, glance)
		},
		WebhookConcurrent: func(t *testing.T, _ *bench, in *inbox) { require.Len(t, in.ofType("refund.updated"), 5) },
		WebhookBadSignature: func(t *testing.T, _ *bench, in *inbox) {
			require.NotEqual(t, Sign(in.ofType("refund.updated")[0].body, time.Now(), "whsec_1"), in.ofType("refund.updated")[0].header.Get("Fusebox-Signature"))
		},
		WebhookOutOfOrder: func(t *testing.T, _ *bench, in *inbox) {
			got := in.ofType("refund.updated")
			require.Len(t, got, 2)
			require.Equal(t, "succeeded", about[refundObject](t, got[0]).Status)
			require.Equal(t, "processing", about[refundObject](t, got[1]).Status, "the older one comes last")
		},
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			in := newInbox(t)
			b := start(t, into(in))
			id := b.charged("p1", "")
			b.refund(id, "r1", back("op1-fault:"+string(fault)))
			b.quiet()
			require.Positive(t, b.Stats().Faults[fault])
			check(t, b, in)
		})
	}
}

// An early event is there before the answer.
func TestW05_TheEventOfARefundBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	id := b.charged("p1", "")
	in.wait(1)
	b.refund(id, "r1", back("op1-fault:webhook_early"))
	require.NotEmpty(t, in.ofType("refund.updated"))
}

// A refund made in the dashboard has no reference and no key of ours.
func TestW05_RefundsOfTheDashboard(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	id := b.charged("p1", "")
	a := b.ctl(http.MethodPost, "/_sim/payments/"+id+"/refunds", `{"amount":300}`)
	require.Equal(t, http.StatusCreated, a.status, "%s", a.body)
	in.wait(3)
	told := about[refundObject](t, in.ofType("refund.updated")[0])
	require.Empty(t, told.Reference)
	require.Empty(t, told.Key)
	require.Equal(t, id, told.PaymentID)
	require.Equal(t, "p1", told.PaymentReference)
	require.Equal(t, int64(300), told.Amount)

	a = b.ctl(http.MethodPost, "/_sim/payments/"+id+"/refunds", `{"status":"processing"}`)
	require.Equal(t, http.StatusCreated, a.status, "%s", a.body)
	var rest Charge
	require.NoError(t, json.Unmarshal(a.body, &rest))
	require.Equal(t, int64(4600), rest.Amount, "all that is left")
	require.Equal(t, http.StatusUnprocessableEntity, b.refund(id, "r1", refundOrder{"op1", 1, "EUR"}).status)
	a = b.ctl(http.MethodPost, "/_sim/refunds/"+rest.ID+"/complete", `{"status":"succeeded"}`)
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	require.Equal(t, int64(4900), b.ledger("p1")[0].Refunded)
	require.Equal(t, http.StatusAccepted, b.ctl(http.MethodPost, "/_sim/refunds/"+rest.ID+"/events", `{"status":"failed"}`).status)

	for name, tt := range map[string]struct {
		path, body string
		status     int
		field      string
	}{
		"nothing left":     {"/_sim/payments/" + id + "/refunds", `{"amount":1}`, http.StatusBadRequest, "amount"},
		"no such charge":   {"/_sim/payments/none/refunds", `{}`, http.StatusNotFound, ""},
		"negative":         {"/_sim/payments/" + id + "/refunds", `{"amount":-1}`, http.StatusBadRequest, "amount"},
		"a word of others": {"/_sim/payments/" + id + "/refunds", `{"status":"requires_action"}`, http.StatusBadRequest, "status"},
		"unknown field":    {"/_sim/payments/" + id + "/refunds", `{"sum":1}`, http.StatusBadRequest, "sum"},
	} {
		a := b.ctl(http.MethodPost, tt.path, tt.body)
		require.Equal(t, tt.status, a.status, name)
		if tt.field != "" {
			require.Contains(t, string(a.body), fmt.Sprintf(`"field":%q`, tt.field), name)
		}
	}
}

func TestDisputes(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	id := b.charged("p1", "")
	a := b.ctl(http.MethodPost, "/_sim/payments/"+id+"/disputes", `{"amount":900,"reason":"product_not_received","due_by":"2030-01-02T03:04:05+01:00"}`)
	require.Equal(t, http.StatusCreated, a.status, "%s", a.body)
	var d Dispute
	require.NoError(t, json.Unmarshal(a.body, &d))
	require.Equal(t, time.Date(2030, 1, 2, 2, 4, 5, 0, time.UTC), d.DueBy)
	for _, status := range []string{DisputeWon, DisputeLost, DisputeWon} { // a bank may change its mind
		a = b.ctl(http.MethodPost, "/_sim/disputes/"+d.ID+"/decide", `{"status":"`+status+`"}`)
		require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	}
	b.quiet()
	require.Len(t, in.ofType("dispute.won"), 2)
	require.Len(t, in.ofType("dispute.lost"), 1)
	opened := about[disputeObject](t, in.ofType("dispute.opened")[0])
	require.Equal(t, disputeObject{
		ID: d.ID, PaymentID: id, PaymentReference: "p1", Status: "opened", Amount: 900, Currency: "EUR",
		Reason: "product_not_received", DueBy: d.DueBy, CreatedAt: opened.CreatedAt,
	}, opened)
	require.Equal(t, "succeeded", b.ledger("p1")[0].Status)

	whole, err := b.OpenDispute(id, NewDispute{})
	require.NoError(t, err)
	require.Equal(t, int64(4900), whole.Amount)
	require.Equal(t, "fraudulent", whole.Reason)
	require.True(t, whole.DueBy.After(time.Now()))

	declined := b.charge("c2", one("p2", "fault:decline")).object(t).ID
	for name, tt := range map[string]struct {
		path, body string
		status     int
	}{
		"no such charge":  {"/_sim/payments/none/disputes", `{}`, http.StatusNotFound},
		"took no money":   {"/_sim/payments/" + declined + "/disputes", `{}`, http.StatusBadRequest},
		"too much":        {"/_sim/payments/" + id + "/disputes", `{"amount":4901}`, http.StatusBadRequest},
		"no such dispute": {"/_sim/disputes/none/decide", `{"status":"won"}`, http.StatusNotFound},
		"no such word":    {"/_sim/disputes/" + d.ID + "/decide", `{"status":"opened"}`, http.StatusBadRequest},
		"again":           {"/_sim/disputes/" + d.ID + "/decide", `{"status":"won"}`, http.StatusConflict},
	} {
		require.Equal(t, tt.status, b.ctl(http.MethodPost, tt.path, tt.body).status, name)
	}
}

// What was given back, and what is in dispute, survives a restart, as do the decisions
// that are still to come.
func TestRefundsAndDisputesSurviveRestart(t *testing.T) {
	t.Parallel()
	path := ledgerFile(t)
	b := start(t, kept(path), func(o *Options) { o.Faults.Timing.Async = time.Hour })
	id := b.charged("p1", "")
	first := b.refund(id, "r1", back("op1"))
	waiting := b.refund(id, "r2", back("op2-fault:async_202")).refund(t)
	d, err := b.OpenDispute(id, NewDispute{Amount: 100})
	require.NoError(t, err)
	d, err = b.DecideDispute(d.ID, DisputeLost)
	require.NoError(t, err)
	before, err := b.Accounts()
	require.NoError(t, err)
	require.NoError(t, b.Close())

	b = start(t, kept(path), func(o *Options) { o.Faults.Timing.Async = time.Hour })
	after, err := b.Accounts()
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Equal(t, []Dispute{d}, after[0].Disputes)
	require.Len(t, after[0].Refunds, 2)
	require.Equal(t, first.body, b.refund(id, "r1", back("op1")).body)
	require.Equal(t, http.StatusUnprocessableEntity, b.refund(id, "r3", refundOrder{"op3", 2901, "EUR"}).status, "what is processing is held")
	_, err = b.Complete(waiting.ID, StatusSucceeded)
	require.NoError(t, err)
	require.Equal(t, int64(2000), b.ledger("p1")[0].Refunded)
}

// The dump is a list of charges, as it ever was, and everything else hangs on them.
func TestLedgerDump(t *testing.T) {
	t.Parallel()
	b := start(t)
	require.JSONEq(t, `[]`, string(b.ctl(http.MethodGet, "/_sim/ledger", "").body))
	id := b.charged("p1", "")
	b.charged("p2", "")
	r := b.refund(id, "r1", back("op1")).refund(t)
	_, err := b.OpenDispute(id, NewDispute{})
	require.NoError(t, err)
	var rows []struct {
		ID, Reference, Status, Currency string
		Amount, Refunded                int64
		Refunds                         []struct {
			ID, Reference, Key, Status, Currency, Of string
			Amount                                   int64
		}
		Disputes []struct{ ID, Status string }
	}
	require.NoError(t, json.Unmarshal(b.ctl(http.MethodGet, "/_sim/ledger", "").body, &rows))
	require.Len(t, rows, 2)
	require.Equal(t, id, rows[0].ID)
	require.Equal(t, int64(4900), rows[0].Amount)
	require.Equal(t, int64(1000), rows[0].Refunded)
	require.Len(t, rows[0].Refunds, 1)
	require.Equal(t, r.ID, rows[0].Refunds[0].ID)
	require.Equal(t, "op1", rows[0].Refunds[0].Reference)
	require.Equal(t, "r1", rows[0].Refunds[0].Key)
	require.Equal(t, int64(1000), rows[0].Refunds[0].Amount)
	require.Len(t, rows[0].Disputes, 1)
	require.Empty(t, rows[1].Refunds)
	require.NoError(t, b.Reset())
	require.JSONEq(t, `[]`, string(b.ctl(http.MethodGet, "/_sim/ledger", "").body))
}
