package simulator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// signedBy reports whether a delivery carries a good v1 of the secret, and when it
// was signed. It is written from the contract, not from Sign.
func signedBy(t *testing.T, r received, secret string) (bool, time.Time) {
	t.Helper()
	var stamp string
	var sums []string
	for part := range strings.SplitSeq(r.header.Get("Fusebox-Signature"), ",") {
		name, value, ok := strings.Cut(part, "=")
		require.True(t, ok, part)
		switch name {
		case "t":
			stamp = value
		case "v1":
			sums = append(sums, value)
		}
	}
	unix, err := strconv.ParseInt(stamp, 10, 64)
	require.NoError(t, err)
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s", stamp, r.body)
	want := hex.EncodeToString(mac.Sum(nil))
	for _, sum := range sums {
		if sum == want {
			return true, time.Unix(unix, 0)
		}
	}
	return false, time.Unix(unix, 0)
}

func TestEvent(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	o := b.charge("k1", one("p1", "")).object(t)
	r := in.wait(1)[0]
	require.Equal(t, eventSucceeded, r.Type)
	require.True(t, strings.HasPrefix(r.ID, "evt_"))
	require.Equal(t, o, r.Data)
	require.NotNil(t, r.Live)
	require.False(t, *r.Live)
	require.Equal(t, "application/json", r.header.Get("Content-Type"))
	ok, at := signedBy(t, r, "whsec_1")
	require.True(t, ok)
	require.WithinDuration(t, time.Now(), at, time.Minute)
	b.quiet()
	require.Equal(t, WebhookStats{Sent: 1, Acked: 1}, b.Stats().Webhooks)
}

func TestEventOfDecline(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	o := b.charge("k1", one("p1", "fault:decline")).object(t)
	r := in.wait(1)[0]
	require.Equal(t, eventFailed, r.Type)
	require.Equal(t, o, r.Data)
}

// W-09: during a rotation every secret signs.
func TestW09_Rotation(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	require.NoError(t, b.SetWebhook(in.url, "new", "old"))
	require.Equal(t, []string{"new", "old"}, b.WebhookSecrets())
	b.charge("k1", one("p1", ""))
	r := in.wait(1)[0]
	require.Equal(t, 2, strings.Count(r.header.Get("Fusebox-Signature"), "v1="))
	for secret, want := range map[string]bool{"new": true, "old": true, "whsec_1": false} {
		ok, _ := signedBy(t, r, secret)
		require.Equal(t, want, ok, secret)
	}
}

// Deliveries repeat, unchanged, until a 2xx; a redirect is none.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	statuses := []int{http.StatusInternalServerError, http.StatusFound, http.StatusBadRequest, http.StatusAccepted}
	in.answer = func(n int, _ received) int { return statuses[min(n, len(statuses))-1] }
	b := start(t, into(in))
	b.charge("k1", one("p1", ""))
	got := in.wait(4)
	b.quiet()
	for i, r := range got {
		require.Equal(t, got[0].body, r.body)
		ok, _ := signedBy(t, r, "whsec_1")
		require.True(t, ok)
		if i > 0 {
			require.GreaterOrEqual(t, r.at.Sub(got[i-1].at), backoff(i))
		}
	}
	require.Len(t, in.all(), 4)
	require.Equal(t, WebhookStats{Sent: 4, Acked: 1}, b.Stats().Webhooks)
}

func TestBackoffGrowsToItsCap(t *testing.T) {
	t.Parallel()
	require.Equal(t, firstPause, backoff(1))
	require.Equal(t, 2*firstPause, backoff(2))
	for n := 1; n < 200; n++ {
		require.LessOrEqual(t, backoff(n), backoff(n+1))
		require.LessOrEqual(t, backoff(n), longestPause)
		require.Positive(t, backoff(n))
	}
}

// Events that nobody acknowledged come again after a restart, the same ones;
// acknowledged ones do not.
func TestEventsSurviveRestart(t *testing.T) {
	t.Parallel()
	path, in := ledgerFile(t), newInbox(t)
	in.answer = func(_ int, r received) int {
		if r.Data.Reference == "p1" {
			return http.StatusOK
		}
		return http.StatusServiceUnavailable
	}
	b := start(t, kept(path), into(in))
	b.charge("k1", one("p1", ""))
	b.charge("k2", one("p2", ""))
	require.Eventually(t, func() bool { return b.Stats().Webhooks.Acked == 1 }, patience, glance)
	in.wait(2)
	require.NoError(t, b.Close())
	before := in.all()

	in.mu.Lock()
	in.answer = nil
	in.mu.Unlock()
	b = start(t, kept(path), into(in))
	in.wait(len(before) + 1)
	b.quiet()
	after := in.all()[len(before):]
	require.Len(t, after, 1)
	require.Equal(t, "p2", after[0].Data.Reference)
	for _, r := range before {
		if r.Data.Reference == "p2" {
			require.Equal(t, r.ID, after[0].ID)
			require.Equal(t, r.body, after[0].body)
		}
	}
}

// W-01: the event is there before the charge is answered.
func TestW01_Early(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	in.gate = make(chan struct{})
	b := start(t, into(in))
	answered := make(chan answer, 1)
	go func() {
		a, err := b.tryCharge(t.Context(), "k1", one("p1", "fault:webhook_early"))
		if err != nil {
			t.Error(err)
		}
		answered <- a
	}()
	in.wait(1)
	select {
	case <-answered:
		t.Fatal("answered before the event was delivered")
	case <-time.After(100 * time.Millisecond):
	}
	close(in.gate)
	require.Equal(t, http.StatusOK, (<-answered).status)
}

// The answer does not wait for ever for a receiver that hangs.
func TestEarlyGivesUp(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	in.gate = make(chan struct{})
	t.Cleanup(func() { close(in.gate) })
	b := start(t, into(in), func(o *Options) { o.Faults.Timing.EarlyWait = 50 * time.Millisecond })
	require.Equal(t, http.StatusOK, b.charge("k1", one("p1", "fault:webhook_early")).status)
}

func TestLate(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	began := time.Now()
	b.charge("k1", one("p1", "fault:webhook_late"))
	require.GreaterOrEqual(t, in.wait(1)[0].at.Sub(began), 300*time.Millisecond)
}

func TestDuplicated(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]int{"webhook_duplicated": 3, "webhook_duplicated*4": 5} {
		t.Run(tag, func(t *testing.T) {
			t.Parallel()
			in := newInbox(t)
			b := start(t, into(in))
			b.charge("k1", one("p1", "fault:"+tag))
			got := in.wait(want)
			for _, r := range got {
				require.Equal(t, got[0].ID, r.ID)
				require.Equal(t, got[0].body, r.body)
				ok, _ := signedBy(t, r, "whsec_1")
				require.True(t, ok)
			}
			require.Equal(t, 1, b.Stats().Webhooks.Acked)
		})
	}
}

// W-07: the same event several times at the same moment.
func TestW07_Concurrent(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	in.gate = make(chan struct{})
	b := start(t, into(in))
	b.charge("k1", one("p1", "fault:webhook_concurrent*20"))
	got := in.wait(20)
	close(in.gate)
	b.quiet()
	in.mu.Lock()
	require.Equal(t, 20, in.most)
	in.mu.Unlock()
	for _, r := range got {
		require.Equal(t, got[0].ID, r.ID)
	}
	require.Equal(t, 1, b.Stats().Webhooks.Acked)
}

// W-04: an older event after the final one, for a charge decided at once and for
// one decided later.
func TestW04_OutOfOrder(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"fault:webhook_out_of_order", "fault:webhook_out_of_order,async_202"} {
		t.Run(tag, func(t *testing.T) {
			t.Parallel()
			in := newInbox(t)
			b := start(t, into(in))
			b.charge("k1", one("p1", tag))
			got := in.wait(2)
			b.quiet()
			require.Equal(t, eventSucceeded, got[0].Type)
			require.Equal(t, eventProcessing, got[1].Type)
			require.Equal(t, got[0].Data.ID, got[1].Data.ID)
			require.Equal(t, StatusProcessing, got[1].Data.Status)
			require.Len(t, in.all(), 2)
		})
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	b.charge("k1", one("p1", "fault:webhook_missing"))
	b.charge("k2", one("p2", ""))
	require.Equal(t, "p2", in.wait(1)[0].Data.Reference)
	b.quiet()
	require.Len(t, in.all(), 1)
	require.Len(t, b.ledger("p1"), 1)
}

// A receiver refuses the spoilt tries; the event itself still gets there.
func TestSpoiltSignatures(t *testing.T) {
	t.Parallel()
	for fault, check := range map[Fault]func(ok bool, age time.Duration){
		WebhookBadSignature: func(ok bool, age time.Duration) {
			require.False(t, ok)
			require.Less(t, age, time.Minute)
		},
		WebhookOldTimestamp: func(ok bool, age time.Duration) {
			require.True(t, ok)
			require.Greater(t, age, 300*time.Second)
		},
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			in := newInbox(t)
			in.answer = func(n int, _ received) int {
				if n <= 2 {
					return http.StatusBadRequest
				}
				return http.StatusOK
			}
			b := start(t, into(in))
			b.charge("k1", one("p1", "fault:"+string(fault)+"*2"))
			got := in.wait(3)
			b.quiet()
			for _, r := range got[:2] {
				ok, at := signedBy(t, r, "whsec_1")
				check(ok, time.Since(at))
			}
			ok, at := signedBy(t, got[2], "whsec_1")
			require.True(t, ok)
			require.Less(t, time.Since(at), time.Minute)
			require.Equal(t, got[0].body, got[2].body)
		})
	}
}

// W-13: signed, but about something else.
func TestW13_Unrelated(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	b.charge("k1", one("p1", "fault:webhook_unrelated"))
	types := map[string]bool{}
	for _, r := range in.wait(2) {
		ok, _ := signedBy(t, r, "whsec_1")
		require.True(t, ok)
		types[r.Type] = true
	}
	require.Equal(t, map[string]bool{eventSucceeded: true, eventUnrelated: true}, types)
}

func TestDoubleObjectTellsOfBoth(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	b.charge("k1", one("p1", "fault:double_object"))
	got := in.wait(2)
	require.NotEqual(t, got[0].Data.ID, got[1].Data.ID)
}

// Without a destination there are no events, also not later.
func TestNobodyToTell(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t)
	b.charge("k1", one("p1", "fault:webhook_out_of_order,webhook_unrelated"))
	require.NoError(t, b.SetWebhook(in.url))
	b.charge("k2", one("p2", ""))
	require.Equal(t, "p2", in.wait(1)[0].Data.Reference)
	b.quiet()
	require.Len(t, in.all(), 1)
	var field *FieldError
	require.ErrorAs(t, b.SetWebhook("ftp://x"), &field)
	require.Equal(t, "webhook_url", field.Field)
	require.ErrorAs(t, b.SetWebhook(in.url, ""), &field)
	require.Equal(t, "webhook_secret", field.Field)
}

// A receiver that hangs holds up one worker, not the others' events.
func TestHangingReceiver(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	in.answer = func(_ int, r received) int {
		if r.Data.Reference == "p1" {
			<-hang
		}
		return http.StatusOK
	}
	b := start(t, into(in))
	b.charge("k1", one("p1", ""))
	in.wait(1)
	for i := range 20 {
		b.charge(fmt.Sprint("k1-", i), one("p2", ""))
	}
	require.Eventually(t, func() bool { return b.Stats().Webhooks.Acked == 20 }, patience, glance)
}
