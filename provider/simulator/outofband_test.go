package simulator

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// R-05, variant: a charge at the provider that we never asked for.
func TestR05_ChargeOutOfBand(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	a := b.ctl(http.MethodPost, "/_sim/payments", `{"reference":"p1","amount":4900,"currency":"EUR"}`)
	require.Equal(t, http.StatusCreated, a.status, "%s", a.body)
	var c Charge
	require.NoError(t, json.Unmarshal(a.body, &c))
	require.Equal(t, StatusSucceeded, c.Status)
	require.Empty(t, c.Key)
	require.Equal(t, c.ID, b.found("/payments?reference=p1")[0].ID)
	require.Equal(t, c.ID, b.found("/payments?limit=1")[0].ID)
	require.Equal(t, c.ID, in.wait(1)[0].Data.ID)
	require.Zero(t, b.Stats().Posts, "nothing was sent by us")
}

// refused first, then money for the same reference under another id.
func TestR03_ApprovedAfterRefused(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	refused := b.charge("k1", one("p1", "fault:decline")).object(t)
	in.wait(1)
	c, err := b.AddCharge(Manual{Reference: "p1", Amount: 4900, Currency: "EUR"})
	require.NoError(t, err)
	require.NotEqual(t, refused.ID, c.ID)
	require.Equal(t, eventSucceeded, in.wait(2)[1].Type)
	require.Len(t, b.found("/payments?reference=p1"), 2)
}

func TestAddChargeFailed(t *testing.T) {
	t.Parallel()
	b := start(t)
	c, err := b.AddCharge(Manual{Reference: "p1", Amount: 1, Currency: "JPY", Status: StatusFailed, OrderRef: "o"})
	require.NoError(t, err)
	o := b.get("/payments/" + c.ID).object(t)
	require.NotEmpty(t, o.Error.Code)
	require.Equal(t, "o", o.OrderRef)
}

// W-15: an event that names another amount, while the ledger stays right.
func TestW15_ClaimContradictsLedger(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	id := b.charge("k1", one("p1", "fault:webhook_missing")).object(t).ID
	a := b.ctl(http.MethodPost, "/_sim/payments/"+id+"/events", `{"amount":100,"currency":"JPY"}`)
	require.Equal(t, http.StatusAccepted, a.status)
	r := in.wait(1)[0]
	require.Contains(t, string(a.body), r.ID)
	require.Equal(t, eventSucceeded, r.Type)
	require.EqualValues(t, 100, r.Data.Amount)
	require.Equal(t, "JPY", r.Data.Currency)
	ok, _ := signedBy(t, r, "whsec_1")
	require.True(t, ok)

	_, err := b.Emit(id, Claim{Status: "failed"})
	require.NoError(t, err)
	require.Equal(t, eventFailed, in.wait(2)[1].Type)
	_, err = b.Emit(id, Claim{Type: "payment.disputed"})
	require.NoError(t, err)
	require.Equal(t, "payment.disputed", in.wait(3)[2].Type)
	require.EqualValues(t, 4900, b.ledger("p1")[0].Amount)
	require.Equal(t, StatusSucceeded, b.ledger("p1")[0].Status)
}

func TestOutOfBandRefusals(t *testing.T) {
	t.Parallel()
	b := start(t)
	for body, field := range map[string]string{
		`{"amount":1,"currency":"EUR"}`:                              "reference",
		`{"reference":"p","currency":"EUR"}`:                         "amount",
		`{"reference":"p","amount":1.5,"currency":"EUR"}`:            "amount",
		`{"reference":"p","amount":1,"currency":"eur"}`:              "currency",
		`{"reference":"p","amount":1,"currency":"EUR","status":"x"}`: "status",
		`{"key":"k"}`: "key",
	} {
		a := b.ctl(http.MethodPost, "/_sim/payments", body)
		require.Equal(t, http.StatusBadRequest, a.status, body)
		require.Contains(t, string(a.body), `"field":"`+field+`"`)
	}
	require.Equal(t, http.StatusBadRequest, b.ctl(http.MethodPost, "/_sim/payments/x/events", `{}`).status, "nobody to tell")
	require.NoError(t, b.SetWebhook(newInbox(t).url))
	require.Equal(t, http.StatusNotFound, b.ctl(http.MethodPost, "/_sim/payments/x/events", `{}`).status)
	require.Equal(t, http.StatusBadRequest, b.ctl(http.MethodPost, "/_sim/payments/x/events", `{"x":1}`).status)
	require.NoError(t, b.Close())
	_, err := b.AddCharge(Manual{Reference: "p", Amount: 1, Currency: "EUR"})
	require.ErrorIs(t, err, errClosed)
	_, err = b.Emit("x", Claim{})
	require.ErrorIs(t, err, errClosed)
}
