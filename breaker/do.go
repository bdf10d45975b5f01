package breaker

import (
	"context"
	"errors"
	"net"
	"time"
)

// NonMoneyTimeout bounds a call made by DoOr when no other timeout is given.
const NonMoneyTimeout = 3 * time.Second

// Do makes one call under a circuit. It returns a *Denied without calling, the cause
// of a context that has ended already, or what call returned: trouble with Redis never
// replaces it.
//
// classify turns the call's error into a verdict; nil means Classify. It is not asked
// when our own context was cancelled: that is Neutral. A call that panics gives its
// slot back, and the panic goes on.
func Do(ctx context.Context, b Breaker, k Key, call func(context.Context) error, classify func(error) Verdict) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	permit, err := b.Permit(ctx, k)
	if err != nil {
		return err
	}
	began, verdict, class := time.Now(), Neutral, "panic"
	// Deferred, so that a panic and runtime.Goexit report too.
	defer func() { permit.Report(context.WithoutCancel(ctx), verdict, time.Since(began), class, "") }()
	err = call(ctx)
	verdict, class = judgeCall(ctx, err, classify), ErrorClass(err)
	return err
}

func judgeCall(ctx context.Context, err error, classify func(error) Verdict) Verdict {
	if err != nil && Cancelled(ctx) {
		return Neutral
	}
	if classify == nil {
		return Classify(err)
	}
	return classify(err)
}

// Cancelled reports whether we gave the call up ourselves: our context ended for
// another reason than its deadline. It looks at the context, not at the call's error.
func Cancelled(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// Classify is the simplest verdict: no error is OK, any error is Fail.
func Classify(err error) Verdict {
	if err == nil {
		return OK
	}
	return Fail
}

// ErrorClass names an error for evidence, by its type and never by its text: what an
// ErrorClass() string method in its chain says, or timeout, canceled, dns, dial, read,
// write, error; "" for nil.
func ErrorClass(err error) string {
	var named interface{ ErrorClass() string }
	var dns *net.DNSError
	var op *net.OpError
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil:
		return ""
	case errors.As(err, &named):
		return named.ErrorClass()
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.As(err, &dns):
		return "dns"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.As(err, &op):
		return op.Op
	}
	return "error"
}

// DoOr makes a call whose result may be replaced: when the circuit denies it, or the
// call fails or exceeds timeout (0: NonMoneyTimeout), or returns instead what or gives
// for the error. The call must end when its context does. Use it with NonMoney
// settings, never for a call that moves money.
func DoOr[T any](ctx context.Context, b Breaker, k Key, timeout time.Duration,
	call func(context.Context) (T, error), or func(cause error) T) T {
	orDefault(&timeout, NonMoneyTimeout)
	var result T
	err := Do(ctx, b, k, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		result, err = call(ctx)
		return err
	}, nil)
	if err != nil {
		return or(err)
	}
	return result
}
