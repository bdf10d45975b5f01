package web

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// program is an API client with a key of its own.
type program struct {
	w      *webtest
	key    store.APIKey
	secret string
}

func (w *webtest) program() *program {
	w.t.Helper()
	k, secret, err := w.store.CreateAPIKey(w.t.Context(), "shop", store.System("test"))
	require.NoError(w.t, err)
	return &program{w, k, secret}
}

// call sends body (none when empty) with the given headers, "Name: value" each.
func (p *program) call(method, path, body string, headers ...string) reply {
	p.w.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req := httptest.NewRequest(method, "/api/v1"+path, r)
	req.Header.Set("Authorization", "Bearer "+p.secret)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	return p.w.do(req)
}

// pay creates a payment under key.
func (p *program) pay(key, body string) reply {
	p.w.t.Helper()
	return p.call(http.MethodPost, "/payments", body, "Idempotency-Key: "+key)
}

const goodPayment = `{"order_ref":"A-1","provider":"atlas","amount":4900,"currency":"EUR"}`

// decode reads a JSON answer.
func decode[T any](t *testing.T, res reply) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(res.body), &v), res.body)
	return v
}

// problemField checks a problem's status and that it names field.
func problemField(t *testing.T, res reply, status int, field string) problem {
	t.Helper()
	require.Equal(t, status, res.StatusCode, res.body)
	require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	p := decode[problem](t, res)
	require.NotEmpty(t, p.Errors, res.body)
	require.Equal(t, field, p.Errors[0].Field, res.body)
	require.NotEmpty(t, p.Errors[0].Reason)
	return p
}

func TestAPIWantsAKey(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.program()
	revoked := w.program()
	require.NoError(t, w.store.RevokeAPIKey(t.Context(), revoked.key.ID, store.System("test")))
	for name, header := range map[string]string{
		"none": "", "no scheme": p.secret, "basic": "Basic " + p.secret, "unknown": "Bearer fbk_x", "revoked": "Bearer " + revoked.secret,
	} {
		for _, path := range []string{"/api/v1/payments", "/api/v1/wallets/" + uuid.NewString()} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("Authorization", header)
			res := w.do(r)
			require.Equal(t, http.StatusUnauthorized, res.StatusCode, name)
			require.Contains(t, res.Header.Get("WWW-Authenticate"), "Bearer")
		}
	}
	res := w.signedIn(store.RoleAdmin).get("/api/v1/payments")
	require.Equal(t, http.StatusUnauthorized, res.StatusCode, "a console session is no API key")
	require.Equal(t, http.StatusOK, p.call(http.MethodGet, "/payments", "").StatusCode)
	require.Contains(t, w.log.String(), `"actor":"client:`+p.key.ID.String())
	require.NotContains(t, w.log.String(), p.secret)
}

func TestAPIWithoutADatabase(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.program()
	w.breakDB()
	for _, res := range []reply{p.pay("k", goodPayment), p.call(http.MethodGet, "/payments", ""),
		p.call(http.MethodGet, "/payments/"+uuid.NewString()+"/timeline", "")} {
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		require.NotEmpty(t, res.Header.Get("Retry-After"))
		require.NotContains(t, res.body, "pool")
	}
}

func TestAPIPathsThatNameNothing(t *testing.T) {
	t.Parallel()
	p := newWebtest(t).program()
	id := uuid.NewString()
	for _, path := range []string{"/payments/" + id, "/payments/7", "/payments/" + id + "/timeline", "/payments/{" + id + "}",
		"/wallets/" + id, "/wallets/x/entries", "/wallets/" + id + "/entries", "/nothing"} {
		res := p.call(http.MethodGet, path, "")
		require.Equal(t, http.StatusNotFound, res.StatusCode, path)
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	}
	require.Equal(t, http.StatusMethodNotAllowed, p.call(http.MethodDelete, "/payments/"+id, "").StatusCode)
}

func TestAPIList(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.program()
	for i := range 5 {
		w.db.SeedPayment(t, func(x *store.Payment) {
			x.CreatedAt = x.CreatedAt.Add(time.Duration(i) * time.Minute)
			if i == 4 {
				x.Status, x.OrderRef, x.Provider = store.Succeeded, "A 1/é", "borealis"
			}
		})
	}
	type list struct {
		Data []paymentJSON `json:"data"`
		Next *string       `json:"next_cursor"`
	}
	get := func(query string) list {
		res := p.call(http.MethodGet, "/payments?"+query, "")
		require.Equal(t, http.StatusOK, res.StatusCode, res.body)
		return decode[list](t, res)
	}
	seen := map[uuid.UUID]bool{}
	page := get("limit=2")
	for {
		for _, x := range page.Data {
			require.False(t, seen[x.ID])
			seen[x.ID] = true
		}
		if page.Next == nil {
			break
		}
		page = get("limit=2&cursor=" + *page.Next)
	}
	require.Len(t, seen, 5)

	require.Len(t, get("status=succeeded").Data, 1)
	require.Len(t, get("provider=atlas").Data, 4)
	require.Len(t, get("order_ref=A%201/%C3%A9").Data, 1)
	require.Len(t, get("created_from=2026-03-02T15:04:11%2B01:00").Data, 3, "zones are understood")
	require.Len(t, get("created_to=2026-03-02T14:03:11Z").Data, 1, "the upper end is exclusive")
	require.Equal(t, "[]", string(mustJSON(t, get("order_ref=none").Data)), "an empty list, not null")
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

func TestAPIListRefusals(t *testing.T) {
	t.Parallel()
	p := newWebtest(t).program()
	for query, field := range map[string]string{
		"status=paid": "status", "provider=zeus": "provider", "limit=0": "limit", "limit=201": "limit", "limit=x": "limit",
		"limit=1e2": "limit", "cursor=7": "cursor", "created_from=yesterday": "created_from", "created_to=2026-03-02": "created_to",
		"created_from=2026-03-02T00:00:00Z&created_to=2026-03-01T00:00:00Z": "created_to",
		"order_ref=a&order_ref=b": "order_ref", "statuss=failed": "statuss", "order_ref=%07": "order_ref",
		"created_from=0000-01-01T00:00:00Z": "created_from",
	} {
		problemField(t, p.call(http.MethodGet, "/payments?"+query, ""), http.StatusUnprocessableEntity, field)
	}
	problemField(t, p.call(http.MethodGet, "/payments?order_ref=%00", ""), http.StatusBadRequest, "order_ref")
}
