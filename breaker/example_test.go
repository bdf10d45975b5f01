package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"fusebox/breaker"
)

// A breaker shared by all processes that use the same Redis.
func ExampleNewRedis() {
	client, err := breaker.NewClient("redis://localhost:6379/0")
	if err != nil {
		log.Fatal(err)
	}
	if warning, err := breaker.CheckServer(context.Background(), client); err != nil {
		log.Print(err) // refuse to start
		return
	} else if warning != "" {
		log.Print(warning)
	}
	b := breaker.NewRedis(client, breaker.Options{
		Settings: func(k breaker.Key) breaker.Settings { return breaker.Recommended(5 * time.Second) },
		Names:    []string{"atlas"},
	})
	err = breaker.Do(context.Background(), b, breaker.Key{Name: "atlas", Class: "charge"},
		func(ctx context.Context) error { return nil /* call atlas */ }, nil)
	if denied := (*breaker.Denied)(nil); errors.As(err, &denied) {
		log.Printf("%s: come back in %s", denied.Reason, denied.RetryAfter)
	}
}

// Five timeouts in a row open the circuit; the sixth call is not made.
func ExampleDo() {
	b := breaker.NewLocal(breaker.Options{})
	atlas := breaker.Key{Name: "atlas", Class: "charge"}
	for range 6 {
		err := breaker.Do(context.Background(), b, atlas, func(context.Context) error {
			return context.DeadlineExceeded
		}, nil)
		denied := (*breaker.Denied)(nil)
		fmt.Println(errors.As(err, &denied))
	}
	s, _ := b.Snapshot(context.Background(), atlas)
	fmt.Println(s.State, s.OpenReason)
	// Output:
	// false
	// false
	// false
	// false
	// false
	// true
	// open consecutive_failures
}

// A translation shows the original text when the translator is down.
func ExampleDoOr() {
	b := breaker.NewLocal(breaker.Options{Settings: func(breaker.Key) breaker.Settings { return breaker.NonMoney() }})
	text := breaker.DoOr(context.Background(), b, breaker.Key{Name: "translate", Class: "text"}, 0,
		func(context.Context) (string, error) { return "", errors.New("503") },
		func(error) string { return "insufficient funds (original)" })
	fmt.Println(text)
	// Output: insufficient funds (original)
}
