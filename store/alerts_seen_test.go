package store_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

func person(name string) store.Actor {
	return store.Actor{Kind: "user", ID: uuid.NewString(), Name: name}
}

func TestAnAlertIsAcknowledgedOnce(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), t.Context()
	for i, severity := range []string{"critical", "info", "warning"} {
		seedAlert(t, r.db, i, severity)
	}
	n, err := r.OpenAlerts(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, n, "news asks nobody")

	olena, taras, action := person("Olena"), person("Taras"), uuid.New()
	require.NoError(t, r.AcknowledgeAlert(ctx, action, 1, " on it ", olena))
	require.NoError(t, r.AcknowledgeAlert(ctx, action, 1, "again", olena), "a double click is one effect")
	var known *store.AcknowledgedError
	require.ErrorAs(t, r.AcknowledgeAlert(ctx, uuid.New(), 1, "mine", taras), &known)
	require.Equal(t, "Olena", known.Name)
	require.ErrorAs(t, r.AcknowledgeAlert(ctx, uuid.New(), 1, "", olena), &known, "another tab of the same person")

	a, err := r.Alert(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, store.Acknowledged{By: olena.String(), Name: "Olena", At: a.Known.At, Note: "on it"}, *a.Known)
	n, err = r.OpenAlerts(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for state, want := range map[string][]int64{"": {3, 2, 1}, store.AlertsOpen: {3, 2}, store.AlertsKnown: {1}} {
		list, _, err := r.ListAlerts(ctx, store.AlertFilter{Known: state}, 0, 10)
		require.NoError(t, err)
		var ids []int64
		for _, a := range list {
			ids = append(ids, a.ID)
		}
		require.Equal(t, want, ids, state)
	}
	audit, _, err := r.ListAudit(ctx, store.AuditFilter{Target: "alert:1"}, 0, 10)
	require.NoError(t, err)
	require.Len(t, audit, 1)
	require.Equal(t, "on it", audit[0].Reason)

	require.ErrorIs(t, r.AcknowledgeAlert(ctx, uuid.New(), 99, "", olena), store.ErrNotFound)
	require.ErrorIs(t, r.AcknowledgeAlert(ctx, uuid.New(), 3, "", store.System("x")), store.ErrNotAllowed)
	require.ErrorIs(t, r.AcknowledgeAlert(ctx, uuid.New(), 3, strings.Repeat("é", store.MaxAlertNote+1), olena), store.ErrNotAllowed)
	require.NoError(t, r.AcknowledgeAlert(ctx, uuid.New(), 3, strings.Repeat("é", store.MaxAlertNote), olena))
}

func TestTwoPeopleAtOnceAcknowledgeOnce(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	seedAlert(t, r.db, 0, "critical")
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { errs[i] = r.AcknowledgeAlert(t.Context(), uuid.New(), 1, "", person("P"+strconv.Itoa(i))) })
	}
	wg.Wait()
	a, err := r.Alert(t.Context(), 1)
	require.NoError(t, err)
	done := 0
	for i, err := range errs {
		if err == nil {
			done++
			require.Equal(t, "P"+strconv.Itoa(i), a.Known.Name)
			continue
		}
		var known *store.AcknowledgedError
		require.ErrorAs(t, err, &known)
		require.Equal(t, a.Known.Name, known.Name)
	}
	require.Equal(t, 1, done)
	audit, _, err := r.ListAudit(t.Context(), store.AuditFilter{Target: "alert:1"}, 0, 10)
	require.NoError(t, err)
	require.Len(t, audit, 1)
}

func TestAllOpenAlertsAreAcknowledgedUpToTheNewestShown(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), t.Context()
	for i := range 6 {
		seedAlert(t, r.db, i, []string{"warning", "critical"}[i%2])
	}
	require.NoError(t, r.AcknowledgeAlert(ctx, uuid.New(), 1, "first", person("Taras")))
	n, err := r.CountOpenAlerts(ctx, "warning", 4)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	olena, action := person("Olena"), uuid.New()
	for range 2 {
		n, err = r.AcknowledgeAlerts(ctx, action, "", 4, "known outage", olena)
		require.NoError(t, err)
		require.Equal(t, 3, n, "on a repeat as the first time")
	}
	first, err := r.Alert(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, "Taras", first.Known.Name, "who was first stays")
	open, _, err := r.ListAlerts(ctx, store.AlertFilter{Known: store.AlertsOpen}, 0, 10)
	require.NoError(t, err)
	require.Len(t, open, 2, "what came after the newest shown stays open")
	n, err = r.AcknowledgeAlerts(ctx, uuid.New(), "critical", 6, "", olena)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	audit, _, err := r.ListAudit(ctx, store.AuditFilter{Target: "alerts:4"}, 0, 10)
	require.NoError(t, err)
	require.Len(t, audit, 1)
	require.EqualValues(t, 3, audit[0].After["alerts"])
}
