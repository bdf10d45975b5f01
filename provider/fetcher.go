package provider

import (
	"context"
	"net/http"
)

// Fetcher is an Adapter some of whose deliveries say that something happened and not
// what: a bare id, usually unsigned. Such a hint proves nothing and anybody can send
// one, so nothing in it is believed: it is stored, answered 2xx, and a job asks the
// provider about the id, outside any transaction and under the status circuit. Only what
// the provider answers is applied, as an event of its own.
//
// The legal order is: Adapter.Verify; Hint, if the delivery is signed or carries no
// signature at all (a wrong one is refused as ever); store; Fetch, any number of times.
type Fetcher interface {
	// Hint returns the provider's id that a delivery names. ok is false for a delivery
	// that is no hint, which goes the usual way. An id has 1 to 100 printable ASCII
	// characters.
	Hint(h http.Header, raw []byte) (id string, ok bool)
	// Fetch asks about an id, with the client's own retries. It never returns an error:
	// whatever happened is in the result.
	Fetch(ctx context.Context, id string) Fetched
}

// Fetched is what asking about a hint established.
//
//	found      the provider describes the object: Event holds it
//	absent     the provider answered that it knows no such id: the hint was none of ours
//	no_answer  proves nothing: ask again later
type Fetched struct {
	LookedUp
	// Event is what was found. Its Key is derived from the id and what was fetched, so
	// that two hints that find the same state are one event.
	Event Event
}

// AsFetcher returns the adapter's way to follow hints, if it has one.
func AsFetcher(a Adapter) (Fetcher, bool) {
	f, ok := a.(Fetcher)
	return f, ok
}

// SignatureUnchecked is the verdict on a delivery whose signature could not be judged
// now, for a reason on our side of the wire: the provider's certificate could not be
// fetched. Nothing is concluded from it; the delivery is wanted again.
const SignatureUnchecked = "unchecked"
