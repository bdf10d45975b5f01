package provider

import "context"

type sentHookKey struct{}

// WithSentHook returns a context whose money call runs hook once its request is
// written and before its answer is read (Caller.Do calls it from httptrace's
// WroteRequest). Tests kill the process there: the moment in which the provider may
// have acted and we cannot know.
func WithSentHook(ctx context.Context, hook func()) context.Context {
	return context.WithValue(ctx, sentHookKey{}, hook)
}

// SentHook returns the hook of WithSentHook, or one that does nothing.
func SentHook(ctx context.Context) func() {
	if hook, ok := ctx.Value(sentHookKey{}).(func()); ok {
		return hook
	}
	return func() {}
}
