package breaker

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"
)

// tokens names permits: the worker, so that a lease shows its holder, and a number no
// other process uses.
type tokens struct {
	prefix string
	n      *atomic.Uint64
}

func newTokens(worker string) tokens {
	return tokens{prefix: worker + "#" + strconv.FormatUint(rand.Uint64(), 36) + "-", n: new(atomic.Uint64)}
}

func (t tokens) next() string { return t.prefix + strconv.FormatUint(t.n.Add(1), 36) }
