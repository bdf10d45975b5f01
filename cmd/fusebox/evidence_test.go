package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// TestO01_EvidenceIsThereWhenSomeoneFinallyAsks: everything a complaint needs two months
// later is kept per attempt and per event, and nothing that must not be kept is.
func TestO01_EvidenceIsThereWhenSomeoneFinallyAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	w.serve()
	w.work()
	cut := w.pay("steady", "fault:charged_then_cut")
	proxied := w.pay("steady", "fault:charged_then_502")
	plain := w.pay("steady", "fault:none")
	for _, id := range []uuid.UUID{cut.ID, proxied.ID, plain.ID} {
		w.settled(id, 60*time.Second)
	}
	w.eventually(30*time.Second, "the event of the plain charge is applied", func() bool {
		return w.scalar(`SELECT count(*) FROM webhook_events WHERE payment_id = $1 AND state = 'applied'`, plain.ID) > 0
	})

	rows := w.rows(`SELECT a.*, p.order_ref FROM attempts a JOIN payments p ON p.id = a.payment_id WHERE a.seq = 1`)
	require.Len(t, rows, 3)
	for _, a := range rows {
		ref := a["order_ref"].(string)
		require.NotEmpty(t, a["operation_key"], ref)
		require.NotEmpty(t, a["request"], ref)
		require.Len(t, a["request_hash"], 32, ref)
		require.NotNil(t, a["first_byte_sent_at"], ref)
		require.Contains(t, a["final_url"], w.provider("steady").settings.BaseURL, ref)
		require.EqualValues(t, 1, a["wire_sends"], ref)
		require.NotEmpty(t, a["breaker_verdict"], ref)
		require.NotNil(t, a["finished_at"], ref)
		switch {
		case strings.Contains(ref, "cut"):
			require.Equal(t, "unknown", a["outcome"])
			require.Equal(t, "cut_after_send", a["error_class"])
		case strings.Contains(ref, "502"):
			require.EqualValues(t, 502, a["http_status"])
			require.Contains(t, a["content_type"], "text/html")
			require.NotEmpty(t, a["server"], "which proxy answered")
			require.Contains(t, string(a["response_body"].([]byte)), "<")
			require.NotNil(t, a["first_byte_at"])
		default:
			require.EqualValues(t, 200, a["http_status"])
			require.NotEmpty(t, a["provider_request_id"])
			require.NotNil(t, a["first_byte_at"])
		}
	}
	events := w.rows(`SELECT * FROM webhook_events WHERE state = 'applied'`)
	require.NotEmpty(t, events)
	for _, e := range events {
		require.NotEmpty(t, e["raw"])
		require.NotEmpty(t, e["headers"])
		require.Equal(t, "valid", e["signature"])
		require.NotEmpty(t, e["secret_label"])
		require.NotNil(t, e["verified_at"])
	}
	w.secretsAreNowhere()
	w.evidenceIsShown(plain.ID.String())
}

// secretsAreNowhere looks through every table that keeps what providers say.
func (w *world) secretsAreNowhere() {
	w.t.Helper()
	s := w.provider("steady").settings
	for _, table := range []string{"attempts", "payment_events", "webhook_events", "provider_objects", "audit_log", "alerts"} {
		for _, row := range w.rows(`SELECT * FROM ` + table) {
			for column, v := range row {
				if b, ok := v.([]byte); ok {
					v = string(b)
				}
				text, err := json.Marshal(v)
				require.NoError(w.t, err)
				require.NotContains(w.t, string(text), s.APIKey, "%s.%s", table, column)
				for _, secret := range s.WebhookSecrets {
					require.NotContains(w.t, string(text), secret, "%s.%s", table, column)
				}
			}
		}
	}
}

// evidenceIsShown asks the API for the timeline, which the console shows too.
func (w *world) evidenceIsShown(id string) {
	w.t.Helper()
	status, body := w.get("/api/v1/payments/" + id + "/timeline")
	require.Equal(w.t, 200, status, body)
	for _, kind := range []string{"attempt_started", "attempt_finished", "webhook"} {
		require.Contains(w.t, body, `"`+kind+`"`)
	}
}

// rows reads whole rows by column name.
func (w *world) rows(query string, args ...any) []map[string]any {
	w.t.Helper()
	rows, err := w.db.Pool.Query(w.t.Context(), query, args...)
	require.NoError(w.t, err)
	list, err := pgx.CollectRows(rows, pgx.RowToMap)
	require.NoError(w.t, err)
	return list
}
