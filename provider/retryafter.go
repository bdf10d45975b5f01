package provider

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Bounds of a Retry-After we obey.
const (
	MinRetryAfter = time.Second
	MaxRetryAfter = 15 * time.Minute
)

// ParseRetryAfter reads a Retry-After header (seconds or an HTTP-date, measured from
// now) and clamps it to [MinRetryAfter, MaxRetryAfter]. Junk is 0: the engine's own
// backoff applies.
func ParseRetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" || len(value) > 64 {
		return 0
	}
	if isDigits(value) {
		if len(value) > 9 { // beyond any clamp, and safe from overflow
			return MaxRetryAfter
		}
		n, _ := strconv.Atoi(value)
		return clampRetry(time.Duration(n) * time.Second)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return clampRetry(at.Sub(now))
}

func clampRetry(d time.Duration) time.Duration {
	return min(max(d, MinRetryAfter), MaxRetryAfter)
}

// isDigits reports whether s is one or more ASCII digits.
func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
