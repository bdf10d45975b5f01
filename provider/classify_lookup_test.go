package provider

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClassifyLookupEveryRow(t *testing.T) {
	t.Parallel()
	html := with(answered(404), func(ex *Exchange) { ex.ContentType = "text/html; charset=utf-8" })
	found := LookupAnswer{Objects: []Object{{ID: "pay_1"}}}
	for _, tt := range []struct {
		name string
		ex   Exchange
		ans  LookupAnswer
		own  bool
		want LookupReading
	}{
		{"found", answered(200), found, true, LookupReading{LookupFound, HealthOK, ReasonFound, ""}},
		{"found by id", answered(200), found, false, LookupReading{LookupFound, HealthOK, ReasonFound, ""}},
		{"empty list", answered(200), LookupAnswer{}, true, LookupReading{LookupAbsent, HealthOK, ReasonNotFound, ""}},
		{"404", answered(404), LookupAnswer{}, true, LookupReading{LookupAbsent, HealthOK, ReasonNotFound, ""}},
		{"404 by id proves nothing", answered(404), LookupAnswer{}, false, LookupReading{LookupNoAnswer, HealthOK, ReasonNotFound, ""}},
		{"404 page of a proxy", html, LookupAnswer{}, true, LookupReading{LookupNoAnswer, HealthNeutral, ReasonProxyNotFound, AlertContract}},
		{"404 page without a type", with(answered(404), func(ex *Exchange) { ex.Body = []byte(" <html>") }), LookupAnswer{}, true, LookupReading{LookupNoAnswer, HealthNeutral, ReasonProxyNotFound, AlertContract}},
		{"401", answered(401), LookupAnswer{}, true, LookupReading{LookupNoAnswer, HealthNeutral, ReasonUnauthorized, AlertConfig}},
		{"403", answered(403), LookupAnswer{}, true, LookupReading{LookupNoAnswer, HealthNeutral, ReasonForbidden, AlertConfig}},
		{"405", answered(405), LookupAnswer{}, true, LookupReading{LookupNoAnswer, HealthNeutral, "http_405", AlertContract}},
		{"429", answered(429), LookupAnswer{}, true, LookupReading{LookupNoAnswer, HealthNeutral, ReasonThrottled, ""}},
		{"302", answered(302), LookupAnswer{}, true, LookupReading{LookupNoAnswer, HealthFail, ReasonRedirect, AlertRedirects}},
		{"408", answered(408), LookupAnswer{}, true, LookupReading{LookupNoAnswer, HealthFail, "http_408", ""}},
		{"503", answered(503), LookupAnswer{}, true, LookupReading{LookupNoAnswer, HealthFail, "http_503", ""}},
		{"HTML with 200", answered(200), LookupAnswer{Malformed: true}, true, LookupReading{LookupNoAnswer, HealthFail, ReasonNotJSON, ""}},
		{"undecodable", answered(200), LookupAnswer{DecodeErr: errWire}, true, LookupReading{LookupNoAnswer, HealthNeutral, ReasonContract, AlertContract}},
		{"filter ignored", answered(200), LookupAnswer{Ignored: true}, true, LookupReading{LookupNoAnswer, HealthNeutral, ReasonFilterIgnored, AlertContract}},
		{"empty with more to come", answered(200), LookupAnswer{More: true}, true, LookupReading{LookupNoAnswer, HealthNeutral, ReasonFilterIgnored, AlertContract}},
		{"beyond the cap", with(answered(200), func(ex *Exchange) { ex.BodyComplete = false }), found, true, LookupReading{LookupNoAnswer, HealthFail, ReasonBodyTooLarge, ""}},
		{"cut", with(answered(200), func(ex *Exchange) { ex.Err = errWire }), found, true, LookupReading{LookupNoAnswer, HealthFail, ReasonBodyCut, ""}},
		{"no connection", Exchange{Err: &ConnectError{ReasonDial, errWire}}, LookupAnswer{}, true, LookupReading{LookupNoAnswer, HealthFail, ReasonDial, ""}},
		{"shutdown", Exchange{Err: errWire, Cancelled: true}, LookupAnswer{}, true, LookupReading{LookupNoAnswer, HealthNeutral, ReasonShutdownBefore, ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, ClassifyLookup(tt.ex, tt.ans, tt.own))
		})
	}
}

// Absence is the one verdict that can end a payment, so it has to come from a whole
// answer to a question of our own.
func TestR01_AbsenceNeedsOurOwnQuestion(t *testing.T) {
	t.Parallel()
	for status := range 600 {
		for _, own := range []bool{true, false} {
			got := ClassifyLookup(answered(status), LookupAnswer{}, own)
			require.Equal(t, own && (status == 200 || status == 404), got.Verdict == LookupAbsent, "%d %v", status, own)
		}
	}
}
