package simulator

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkPostPayment is what the simulator's own work on one healthy charge costs, beside
// net/http: it is a part of every measurement of the whole.
func BenchmarkPostPayment(b *testing.B) {
	for _, kept := range []string{"memory", "file"} {
		b.Run(kept, func(b *testing.B) {
			opts := Options{Name: "atlas", APIKey: "bench-key", Seed: 7}
			if kept == "file" {
				opts.LedgerPath = filepath.Join(b.TempDir(), "ledger")
			}
			s, err := Start(b.Context(), opts)
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, s.Close()) })
			h := s.publicHandler()
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				body := fmt.Sprintf(`{"reference":"019ad5c1-7c2e-7d3a-9f10-%012d","amount":4900,"currency":"EUR","order_ref":"bench-%d"}`, n, n)
				r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(body))
				r.Header["Authorization"] = []string{"Bearer bench-key"}
				r.Header["Content-Type"] = []string{"application/json"}
				r.Header["Idempotency-Key"] = []string{fmt.Sprintf("fbx_%d", n)}
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body.String())
				}
			}
		})
	}
}
