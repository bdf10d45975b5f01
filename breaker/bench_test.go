package breaker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fusebox/breaker/breakertest"
)

// inParallel runs n operations on g goroutines.
func inParallel(b *testing.B, g int, op func()) {
	b.Helper()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range g {
		wg.Go(func() {
			for n := i; n < b.N; n += g {
				op()
			}
		})
	}
	wg.Wait()
}

// BenchmarkCall measures permit and report against their floor, two bare round trips.
func BenchmarkCall(b *testing.B) {
	server := breakertest.Start(b)
	client := func() redis.UniversalClient {
		c, err := NewClient(server.URL() + "?read_timeout=5s&write_timeout=5s&pool_timeout=5s")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() })
		return c
	}
	arms := map[string]func() func(){
		"floor": func() func() {
			c := client()
			return func() { c.Ping(context.Background()); c.Ping(context.Background()) }
		},
	}
	for name, limit := range map[string]int{"ours": 0, "ours-bulkhead": 1000} {
		arms[name] = func() func() {
			settings := Recommended(5 * time.Second)
			settings.MaxInFlight = limit
			r := NewRedis(client(), Options{Timeout: 5 * time.Second, Settings: func(Key) Settings { return settings }})
			return func() {
				if permit, err := r.Permit(context.Background(), charge); err == nil {
					permit.Report(context.Background(), OK, 0, "", "")
				}
			}
		}
	}
	for _, g := range []int{1, 8, 64} {
		for name, arm := range arms {
			b.Run(fmt.Sprintf("%s/%d", name, g), func(b *testing.B) { inParallel(b, g, arm()) })
		}
	}
}
