package chaos

import (
	"errors"
	"log/slog"
	"time"
)

// Options of Run.
type Options struct {
	Binary string        // the fusebox program
	For    time.Duration // how long faults and traffic last
	Settle time.Duration // how long everything may take to settle afterwards
	Seed   uint64
	Rate   float64      // payments a second; wallets, refunds, captures and operators come along
	Logs   string       // directory that keeps the processes' logs; empty: nothing is kept
	Log    *slog.Logger // what happens, as it happens; nil: nothing
}

// lead is calm traffic before the first fault: circuits, pools and payments to refund.
func (o Options) lead() time.Duration { return min(5*time.Second, o.For/8) }

// Validate names the flag that is wrong.
func (o Options) Validate() error {
	switch {
	case o.Binary == "":
		return errors.New("chaos: no program to run")
	case o.For < 10*time.Second || o.For > time.Hour:
		return errors.New("--for: must be between 10 s and 1 h")
	case o.Settle < time.Second:
		return errors.New("--settle: must be at least 1 s")
	case o.Rate <= 0 || o.Rate > 500:
		return errors.New("--rate: must be above 0 and at most 500 payments a second")
	}
	return nil
}
