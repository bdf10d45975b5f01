package web

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// wallet creates one by API and returns its path.
func (p *program) wallet(owner string) string {
	p.w.t.Helper()
	res := p.call(http.MethodPost, "/wallets", `{"owner_ref":"`+owner+`","currency":"EUR"}`)
	require.Equal(p.w.t, http.StatusCreated, res.StatusCode, res.body)
	return "/wallets/" + decode[walletJSON](p.w.t, res).ID.String()
}

func TestWalletAPI(t *testing.T) {
	t.Parallel()
	p := newWebtest(t).program()
	path := p.wallet("cust-1")
	res := p.call(http.MethodPost, "/wallets", `{"owner_ref":"cust-1","currency":"EUR"}`)
	require.Equal(t, http.StatusOK, res.StatusCode, "an owner has one wallet")
	problemField(t, p.call(http.MethodPost, "/wallets", `{"owner_ref":"cust-1","currency":"USD"}`), 422, "currency")

	res = p.call(http.MethodPost, path+"/credit", `{"operation_id":"op-1","amount":5000,"note":"gift"}`)
	require.Equal(t, http.StatusCreated, res.StatusCode, res.body)
	e := decode[entryJSON](t, res)
	require.Equal(t, int64(5000), e.Amount)
	require.Equal(t, int64(5000), e.BalanceAfter)
	require.Equal(t, "op-1", e.OperationID)
	res = p.call(http.MethodPost, path+"/debit", `{"amount":2000}`, "Idempotency-Key: op-2")
	require.Equal(t, http.StatusCreated, res.StatusCode, res.body)
	require.Equal(t, int64(-2000), decode[entryJSON](t, res).Amount)

	w := decode[walletJSON](t, p.call(http.MethodGet, path, ""))
	require.Equal(t, int64(3000), w.Balance)
	require.Equal(t, int64(3000), w.Available)
	found := p.call(http.MethodGet, "/wallets?owner_ref=cust-1", "")
	require.Contains(t, found.body, w.ID.String())
	require.JSONEq(t, `{"data":[]}`, p.call(http.MethodGet, "/wallets?owner_ref=cust-2", "").body)
	problemField(t, p.call(http.MethodGet, "/wallets", ""), 422, "owner_ref")
}

// Item 8 of the first issue: a movement counts once however often it is sent.
func TestWalletMovementsCountOnce(t *testing.T) {
	t.Parallel()
	p := newWebtest(t).program()
	path := p.wallet("cust-1")
	var wg sync.WaitGroup
	replies := make([]reply, 20)
	for i := range replies {
		wg.Go(func() {
			replies[i] = p.call(http.MethodPost, path+"/credit", `{"operation_id":"op-1","amount":700}`)
		})
	}
	wg.Wait()
	made := 0
	for _, res := range replies {
		require.Contains(t, []int{200, 201}, res.StatusCode, res.body)
		if res.StatusCode == http.StatusCreated {
			made++
		} else {
			require.Equal(t, "true", res.Header.Get("Idempotent-Replayed"))
		}
	}
	require.Equal(t, 1, made)
	require.Equal(t, int64(700), decode[walletJSON](t, p.call(http.MethodGet, path, "")).Balance)
	problemField(t, p.call(http.MethodPost, path+"/credit", `{"operation_id":"op-1","amount":701}`), 422, "operation_id")
	problemField(t, p.call(http.MethodPost, path+"/debit", `{"operation_id":"op-1","amount":700}`), 422, "operation_id")
}

func TestWalletRefusals(t *testing.T) {
	t.Parallel()
	p := newWebtest(t).program()
	path := p.wallet("cust-1")
	for body, field := range map[string]string{
		`{"operation_id":"a","amount":1}`:                                           "amount", // nothing to debit
		`{"operation_id":"a","amount":100.5}`:                                       "amount",
		`{"operation_id":"a","amount":-1}`:                                          "amount",
		`{"operation_id":"a"}`:                                                      "amount",
		`{"amount":1}`:                                                              "operation_id",
		`{"operation_id":"ключ","amount":1}`:                                        "operation_id",
		`{"operation_id":7,"amount":1}`:                                             "operation_id",
		`{"operation_id":"payment:x","amount":1}`:                                   "operation_id",
		`{"operation_id":"` + strings.Repeat("x", 256) + `","amount":1}`:            "operation_id",
		`{"operation_id":"a","amount":1,"currency":"EUR"}`:                          "currency",
		`{"operation_id":"a","amount":1,"note":"` + strings.Repeat("x", 501) + `"}`: "note",
	} {
		problemField(t, p.call(http.MethodPost, path+"/debit", body), 422, field)
	}
	absent := "/wallets/" + uuid.NewString()
	require.Equal(t, 404, p.call(http.MethodPost, absent+"/credit", `{"operation_id":"a","amount":1}`).StatusCode)
	problemField(t, p.call(http.MethodPost, "/wallets", `{"owner_ref":"","currency":"eur"}`), 422, "owner_ref")
	require.Zero(t, decode[walletJSON](t, p.call(http.MethodGet, path, "")).Balance)
}

func TestWalletEntriesPage(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.program()
	id := w.db.SeedWallet(t, "cust-1", "EUR", 100, 200, 300, 400, 500)
	type list struct {
		Data []entryJSON `json:"data"`
		Next *string     `json:"next_cursor"`
	}
	var amounts []int64
	query := "?limit=2"
	for query != "" {
		res := p.call(http.MethodGet, "/wallets/"+id.String()+"/entries"+query, "")
		require.Equal(t, http.StatusOK, res.StatusCode, res.body)
		page := decode[list](t, res)
		for _, e := range page.Data {
			amounts = append(amounts, e.Amount)
		}
		query = ""
		if page.Next != nil {
			query = "?limit=2&cursor=" + *page.Next
		}
	}
	require.Equal(t, []int64{500, 400, 300, 200, 100}, amounts)
	problemField(t, p.call(http.MethodGet, "/wallets/"+id.String()+"/entries?limit=500", ""), 422, "limit")
}
