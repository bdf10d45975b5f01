package simulator

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChargeSucceeds(t *testing.T) {
	t.Parallel()
	b := start(t)
	a := b.charge("k1", one("p1", ""))
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	require.NotEmpty(t, a.header.Get("Request-Id"))
	require.Empty(t, a.header.Get("Idempotent-Replayed"))

	o := a.object(t)
	require.True(t, strings.HasPrefix(o.ID, "pay_"), o.ID)
	require.Equal(t, object{ID: o.ID, Reference: "p1", Status: "succeeded", Amount: 4900, Currency: "EUR", CreatedAt: o.CreatedAt, Key: "k1", Totals: &totals{Captured: 4900}}, o)
	require.WithinDuration(t, time.Now(), o.CreatedAt, time.Minute)
	require.Equal(t, o, b.get("/payments/"+o.ID).object(t))

	led := b.ledger("p1")
	require.Len(t, led, 1)
	require.Equal(t, o.ID, led[0].ID)
}

// Faults that book nothing, and what they answer.
func TestFaultsThatDoNotCharge(t *testing.T) {
	t.Parallel()
	for fault, want := range map[Fault]struct {
		status int
		code   string
		field  string
	}{
		Throttle429:     {http.StatusTooManyRequests, "rate_limited", ""},
		Rejected422:     {http.StatusUnprocessableEntity, "invalid_request", "description"},
		Unauthorized401: {http.StatusUnauthorized, "unauthorized", ""},
		Forbidden403:    {http.StatusForbidden, "forbidden", ""},
		Error500:        {http.StatusInternalServerError, "internal", ""},
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			b := start(t)
			a := b.charge("k1", one("p1", "fault:"+string(fault)))
			require.Equal(t, want.status, a.status)
			require.Equal(t, want.code, a.problem(t).Code)
			require.Equal(t, want.field, a.problem(t).Field)
			require.NotEmpty(t, a.problem(t).Message)
			require.Empty(t, b.ledger("p1"))
			require.Equal(t, 1, b.Stats().Faults[fault])

			again := b.charge("k1", one("p1", "fault:"+string(fault)))
			if fault == Error500 { // kept under the key, as the contract has it
				require.Equal(t, want.status, again.status)
				require.Equal(t, a.body, again.body)
				require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
				require.Empty(t, b.ledger("p1"))
				return
			}
			require.Equal(t, http.StatusOK, again.status, "not kept under the key")
			require.Len(t, b.ledger("p1"), 1)
		})
	}
}

// Faults that book and answer something a client must not take for a success.
func TestFaultsThatChargeAndAnswerBadly(t *testing.T) {
	t.Parallel()
	for fault, check := range map[Fault]func(*testing.T, answer){
		ChargedThen502: func(t *testing.T, a answer) {
			require.Equal(t, http.StatusBadGateway, a.status)
			require.Contains(t, a.header.Get("Content-Type"), "text/html")
			require.Contains(t, string(a.body), "<h1>502 Bad Gateway</h1>")
		},
		ChargedThenHTML: func(t *testing.T, a answer) {
			require.Equal(t, http.StatusOK, a.status)
			require.Contains(t, a.header.Get("Content-Type"), "text/html")
		},
		ChargedThenRedirect: func(t *testing.T, a answer) {
			require.Equal(t, http.StatusTemporaryRedirect, a.status)
			require.Equal(t, "/v2/payments", a.header.Get("Location"))
		},
		ChargedThenTruncated: func(t *testing.T, a answer) {
			require.Equal(t, http.StatusOK, a.status)
			require.ErrorIs(t, a.err, io.ErrUnexpectedEOF)
			n, err := strconv.Atoi(a.header.Get("Content-Length"))
			require.NoError(t, err)
			require.Less(t, len(a.body), n)
			require.NotEmpty(t, a.body)
			require.False(t, json.Valid(a.body))
		},
		Error500Charged: func(t *testing.T, a answer) {
			require.Equal(t, http.StatusInternalServerError, a.status)
			require.Equal(t, "internal", a.problem(t).Code)
		},
		WrongShape: func(t *testing.T, a answer) {
			require.Equal(t, http.StatusOK, a.status)
			require.Contains(t, string(a.body), `"amount":{"value":4900}`)
		},
		UnmappedStatus: func(t *testing.T, a answer) {
			require.Equal(t, http.StatusOK, a.status)
			require.Equal(t, "settled_in_part", a.object(t).Status)
		},
		AmountMisreported: func(t *testing.T, a answer) {
			require.Equal(t, http.StatusOK, a.status)
			require.EqualValues(t, 4410, a.object(t).Amount)
		},
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			b := start(t)
			a, err := b.tryCharge(t.Context(), "k1", one("p1", "fault:"+string(fault)))
			require.NoError(t, err)
			require.NotEmpty(t, a.header.Get("Request-Id"))
			check(t, a)

			// The money moved, as asked, and the lookup tells so.
			led := b.ledger("p1")
			require.Len(t, led, 1)
			require.Equal(t, StatusSucceeded, led[0].Status)
			require.EqualValues(t, 4900, led[0].Amount)
			require.Equal(t, fault, led[0].Fault)
			require.EqualValues(t, 4900, b.found("/payments?reference=p1")[0].Amount)
			require.Equal(t, 1, b.Stats().Faults[fault])

			again := b.charge("k1", one("p1", "fault:"+string(fault)))
			require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
			require.Len(t, b.ledger("p1"), 1)
			if fault == Error500Charged {
				require.Equal(t, a.body, again.body)
				return
			}
			require.Equal(t, http.StatusOK, again.status, "the replay tells the truth")
			require.Equal(t, led[0].ID, again.object(t).ID)
		})
	}
}

// Silence: charged or not, no byte ever comes and the client has to give up.
func TestSilence(t *testing.T) {
	t.Parallel()
	for fault, charges := range map[Fault]int{ChargedThenSilent: 1, Hang: 0} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			b := start(t)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := b.tryCharge(ctx, "k1", one("p1", "fault:"+string(fault)))
				done <- err
			}()
			require.Eventually(t, func() bool { return b.Stats().Faults[fault] == 1 }, patience, glance)
			require.Eventually(t, func() bool { return len(b.ledger("p1")) == charges }, patience, glance)
			select {
			case err := <-done:
				t.Fatalf("an answer, or an end: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			cancel()
			require.ErrorIs(t, <-done, context.Canceled)

			again := b.charge("k1", one("p1", "fault:"+string(fault)))
			require.Equal(t, http.StatusOK, again.status)
			require.Len(t, b.ledger("p1"), 1)
			require.Equal(t, charges == 1, again.header.Get("Idempotent-Replayed") == "true")
		})
	}
}

// The silence ends by dropping the connection, so that no client waits for ever.
func TestSilenceEnds(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) { o.Faults.Timing.Silent = 50 * time.Millisecond })
	_, err := b.tryCharge(t.Context(), "k1", one("p1", "fault:charged_then_silent"))
	require.ErrorIs(t, err, io.EOF)
}

// C-01: the cut happens after the whole request was read, also on a connection
// that served requests before, and leaves exactly one send on the wire.
func TestC01_CutAfterChargeOnWarmConnection(t *testing.T) {
	t.Parallel()
	for fault, want := range map[Fault]error{ChargedThenCut: io.EOF, ChargedThenReset: syscall.ECONNRESET} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			b := start(t)
			conn, err := net.Dial("tcp", strings.TrimPrefix(b.URL(), "http://"))
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
			in := bufio.NewReader(conn)

			for range 2 { // warm it
				_, err = fmt.Fprintf(conn, "GET /health HTTP/1.1\r\nHost: sim\r\n\r\n")
				require.NoError(t, err)
				res, err := http.ReadResponse(in, nil)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, res.Body)
				require.NoError(t, err)
				require.False(t, res.Close)
			}
			body := `{"reference":"p1","amount":4900,"currency":"EUR","order_ref":"fault:` + string(fault) + `"}`
			_, err = fmt.Fprintf(conn, "POST /payments HTTP/1.1\r\nHost: sim\r\nAuthorization: Bearer sk\r\nIdempotency-Key: k1\r\n"+
				"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			require.NoError(t, err)
			_, err = in.ReadByte()
			require.True(t, errors.Is(err, want), "%v", err)
			require.Len(t, b.ledger("p1"), 1)
			require.Equal(t, 1, b.Stats().ByKey["k1"])
		})
	}
}

// The hazard itself: left to its habits, net/http sends a keyed request again on
// its own. The tally shows it, which is what an engine's test needs.
func TestC01_TallyShowsResends(t *testing.T) {
	t.Parallel()
	b := start(t)
	res, err := b.client.Get(b.URL() + "/health")
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())

	body := `{"reference":"p1","amount":4900,"currency":"EUR","order_ref":"fault:charged_then_cut"}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL()+"/payments", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer sk")
	req.Header.Set("Idempotency-Key", "k1")
	req.Header.Set("Content-Type", "application/json")
	a, err := b.do(req) // GetBody is set
	require.NoError(t, err)
	require.Equal(t, "true", a.header.Get("Idempotent-Replayed"))
	require.Equal(t, 2, b.Stats().ByKey["k1"])
	require.Equal(t, 2, b.Stats().ByReference["p1"])
	require.Len(t, b.ledger("p1"), 1)
}

func TestSlow(t *testing.T) {
	t.Parallel()
	b := start(t)
	began := time.Now()
	a := b.charge("k1", one("p1", "fault:slow"))
	require.Equal(t, http.StatusOK, a.status)
	require.GreaterOrEqual(t, time.Since(began), 150*time.Millisecond)
}

// C-05: the header comes at once, the body a byte at a time.
func TestC05_Drip(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) { o.Faults.Timing.Drip = time.Minute })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body, err := json.Marshal(one("p1", "fault:drip"))
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL()+"/payments", strings.NewReader(string(body)))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer sk")
	req.Header.Set("Idempotency-Key", "k1")
	req.Header.Set("Content-Type", "application/json")
	res, err := b.client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	first := make([]byte, 1)
	_, err = io.ReadFull(res.Body, first)
	require.NoError(t, err)
	require.Equal(t, "{", string(first))
	cancel()
	_, err = res.Body.Read(first)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, b.ledger("p1"), 1)
}

func TestDripReachesItsEnd(t *testing.T) {
	t.Parallel()
	b := start(t)
	a := b.charge("k1", one("p1", "fault:drip"))
	require.Equal(t, "p1", a.object(t).Reference)
}

func TestDecline(t *testing.T) {
	t.Parallel()
	b := start(t)
	a := b.charge("k1", one("p1", "fault:decline"))
	require.Equal(t, http.StatusPaymentRequired, a.status)
	o := a.object(t)
	require.Equal(t, StatusFailed, o.Status)
	require.NotEmpty(t, o.ID)
	require.NotEmpty(t, o.Error.Code)
	require.NotEmpty(t, o.Error.Message)
	require.Equal(t, o, b.get("/payments/"+o.ID).object(t))
}

func TestDeclinesVary(t *testing.T) {
	t.Parallel()
	b := start(t, faulty(map[Fault]float64{Decline: 1}))
	codes := map[string]bool{}
	for i := range 40 {
		codes[b.charge(fmt.Sprint("k", i), one(fmt.Sprint("p", i), "")).object(t).Error.Code] = true
	}
	require.Len(t, codes, len(declines))
}

func TestThrottleSaysWhenInBothForms(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := start(t, faulty(map[Fault]float64{Throttle429: 1}), func(o *Options) { o.Now = func() time.Time { return now } })
	var seconds, dates int
	for i := range 20 {
		v := b.charge(fmt.Sprint("k", i), one(fmt.Sprint("p", i), "")).header.Get("Retry-After")
		if at, err := http.ParseTime(v); err == nil {
			require.Equal(t, now.Add(3*time.Second), at.UTC())
			dates++
			continue
		}
		require.Equal(t, "2", v)
		seconds++
	}
	require.Positive(t, seconds)
	require.Positive(t, dates)
}

func TestThrottleSeveralTimes(t *testing.T) {
	t.Parallel()
	b := start(t)
	for range 3 {
		require.Equal(t, http.StatusTooManyRequests, b.charge("k1", one("p1", "fault:throttle_429*3")).status)
	}
	require.Equal(t, http.StatusOK, b.charge("k1", one("p1", "fault:throttle_429*3")).status)
	require.Len(t, b.ledger("p1"), 1)
}

// C-09: the first call outlives its client, the same key is refused meanwhile,
// and in the end there is one charge that the key's holder can have.
func TestC09_InProgress(t *testing.T) {
	t.Parallel()
	b := start(t)
	o := one("p1", "fault:in_progress_409")
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := b.tryCharge(ctx, "k1", o)
		first <- err
	}()
	require.Eventually(t, func() bool { return b.Stats().Faults[InProgress409] == 1 }, patience, glance)
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)

	a := b.charge("k1", o)
	require.Equal(t, http.StatusConflict, a.status)
	require.Equal(t, "idempotency_key_in_use", a.problem(t).Code)
	require.Empty(t, b.found("/payments?idempotency_key=k1"))

	require.Eventually(t, func() bool { return len(b.ledger("p1")) == 1 }, patience, glance)
	a = b.charge("k1", o)
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, "true", a.header.Get("Idempotent-Replayed"))
	require.Len(t, b.ledger("p1"), 1)
}

func TestDoubleObject(t *testing.T) {
	t.Parallel()
	b := start(t)
	a := b.charge("k1", one("p1", "fault:double_object"))
	require.Equal(t, http.StatusOK, a.status)
	got := b.found("/payments?reference=p1")
	require.Len(t, got, 2)
	require.Equal(t, a.object(t), got[0])
	require.NotEqual(t, got[0].ID, got[1].ID)
	for _, c := range b.ledger("p1") {
		require.Equal(t, StatusSucceeded, c.Status)
		require.Equal(t, DoubleObject, c.Fault, "marked as the provider's own doing")
	}
}

func TestAmountAltered(t *testing.T) {
	t.Parallel()
	b := start(t)
	a := b.charge("k1", one("p1", "fault:amount_altered"))
	require.EqualValues(t, 4410, a.object(t).Amount)
	require.EqualValues(t, 4410, b.ledger("p1")[0].Amount)
	require.EqualValues(t, 4900, b.ledger("p1")[0].Asked)
	require.EqualValues(t, 4410, b.found("/payments?reference=p1")[0].Amount)
	for _, amount := range []int64{1, 2, 9, 10, 11, 500} {
		require.NotEqual(t, amount, altered(amount))
		require.Positive(t, altered(amount))
	}
}

// Charges the provider decides later.
func TestDecidedLater(t *testing.T) {
	t.Parallel()
	for fault, want := range map[Fault]struct {
		http        int
		first, then string
	}{
		Async202:       {http.StatusAccepted, StatusProcessing, StatusSucceeded},
		Async202Failed: {http.StatusAccepted, StatusProcessing, StatusFailed},
		RequiresAction: {http.StatusOK, StatusRequiresAction, StatusSucceeded},
		ActionCanceled: {http.StatusOK, StatusRequiresAction, StatusCanceled},
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			in := newInbox(t)
			b := start(t, into(in))
			a := b.charge("k1", one("p1", "fault:"+string(fault)))
			require.Equal(t, want.http, a.status)
			o := a.object(t)
			require.Equal(t, want.first, o.Status)
			require.Equal(t, want.first == StatusRequiresAction, o.ActionURL == b.URL()+"/actions/"+o.ID)
			require.Eventually(t, func() bool {
				return b.found("/payments?reference=p1")[0].Status == want.then
			}, patience, glance)
			in.wait(2) // in whichever order
			require.Equal(t, map[string]string{eventType(want.first): want.first, eventType(want.then): want.then}, in.told())

			again := b.charge("k1", one("p1", "fault:"+string(fault)))
			require.Equal(t, a.body, again.body, "the key keeps the first answer")
		})
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	b := start(t)
	good := `{"reference":"p1","amount":4900,"currency":"EUR"}`
	for name, c := range map[string]struct {
		key, kind, body string
		status          int
		field           string
	}{
		"no key":            {"", "application/json", good, 400, "Idempotency-Key"},
		"key too long":      {strings.Repeat("k", 256), "application/json", good, 400, "Idempotency-Key"},
		"form":              {"k", "application/x-www-form-urlencoded", "amount=1", 415, ""},
		"no type":           {"k", "", good, 415, ""},
		"broken JSON":       {"k", "application/json", `{"reference":`, 400, ""},
		"more after it":     {"k", "application/json", good + "{}", 400, ""},
		"array":             {"k", "application/json", `[]`, 422, ""},
		"no reference":      {"k", "application/json", `{"amount":4900,"currency":"EUR"}`, 422, "reference"},
		"reference number":  {"k", "application/json", `{"reference":1,"amount":4900,"currency":"EUR"}`, 422, "reference"},
		"no amount":         {"k", "application/json", `{"reference":"p","currency":"EUR"}`, 422, "amount"},
		"amount text":       {"k", "application/json", `{"reference":"p","amount":"4900","currency":"EUR"}`, 422, "amount"},
		"amount fraction":   {"k", "application/json", `{"reference":"p","amount":49.5,"currency":"EUR"}`, 422, "amount"},
		"amount exponent":   {"k", "application/json", `{"reference":"p","amount":1e3,"currency":"EUR"}`, 422, "amount"},
		"amount negative":   {"k", "application/json", `{"reference":"p","amount":-1,"currency":"EUR"}`, 422, "amount"},
		"amount zero":       {"k", "application/json", `{"reference":"p","amount":0,"currency":"EUR"}`, 422, "amount"},
		"amount null":       {"k", "application/json", `{"reference":"p","amount":null,"currency":"EUR"}`, 422, "amount"},
		"amount enormous":   {"k", "application/json", `{"reference":"p","amount":99999999999999999999,"currency":"EUR"}`, 422, "amount"},
		"currency unknown":  {"k", "application/json", `{"reference":"p","amount":1,"currency":"EUX"}`, 422, "currency"},
		"currency in lower": {"k", "application/json", `{"reference":"p","amount":1,"currency":"eur"}`, 422, "currency"},
		"too large":         {"k", "application/json", `{"reference":"` + strings.Repeat("p", maxBody) + `"}`, 413, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := b.send(t.Context(), http.MethodPost, "/payments", c.key, c.kind, []byte(c.body))
			require.NoError(t, err)
			require.Equal(t, c.status, a.status, "%s", a.body)
			require.Equal(t, "invalid_request", a.problem(t).Code)
			require.Equal(t, c.field, a.problem(t).Field)
			all, err := b.Charges()
			require.NoError(t, err)
			require.Empty(t, all)
		})
	}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Bearer sk2", "Basic sk"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.URL()+"/payments", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", header)
		a, err := b.do(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusUnauthorized, a.status, header)
		require.Equal(t, "unauthorized", a.problem(t).Code)
		require.NotEmpty(t, a.header.Get("Request-Id"))
	}
	require.Equal(t, http.StatusNotFound, b.get("/nothing").status)
}

// A person at a checkout picks a fault by the amount.
func TestPickByAmount(t *testing.T) {
	t.Parallel()
	b := start(t)
	o := one("p1", "")
	o.Amount = 66604
	require.Equal(t, http.StatusBadGateway, b.charge("k1", o).status)
	o = order{Reference: "p2", Amount: 66613, Currency: "JPY"}
	require.Equal(t, http.StatusPaymentRequired, b.charge("k2", o).status)
}
