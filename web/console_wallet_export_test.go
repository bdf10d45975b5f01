package web

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/store"
)

func TestWalletExportHoldsEveryEntry(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	amounts := make([]int64, exportBatch+1)
	for i := range amounts {
		amounts[i] = 100
	}
	amounts[exportBatch] = -250
	id := w.db.SeedWallet(t, "=acme", "EUR", amounts...)
	b := w.signedIn(store.RoleSupport)
	page := b.get("/wallets/" + id.String()).body
	require.Contains(t, page, `href="/wallets/`+id.String()+`/entries.csv"`)
	body := b.get("/wallets/" + id.String() + "/entries.csv").body
	rows := 0
	for _, ch := range body {
		if ch == '\n' {
			rows++
		}
	}
	require.Equal(t, 1+len(amounts), rows)
	require.Contains(t, body, ",-250,-2.50,19750,197.50,EUR,")
	require.Contains(t, body, ",'=acme,")
	require.Equal(t, 404, b.get("/wallets/00000000-0000-0000-0000-000000000001/entries.csv").StatusCode)
}
