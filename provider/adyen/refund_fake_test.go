package adyen

import (
	"net/http"
)

// operations are the refunds of the fake.
type operations struct {
	byKey map[string]int // key → index in booked
}

func (f *fake) refund(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) }
