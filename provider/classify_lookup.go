package provider

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
)

// ClassifyLookup reads one lookup request. own says that the question was asked by our
// own reference or key: only then can an empty answer mean absence, because an id may
// be one we misread. Whether absence is fresh enough to count is the engine's matter.
//
//	200 with objects about the question       found      ok
//	200 with none, 404 in the provider's voice absent    ok
//	401 403                                   no answer  neutral, alert: proves nothing
//	425 429                                   no answer  neutral
//	other shapes, ignored filter, other 4xx   no answer  neutral, alert
//	3xx 408 5xx, HTML under a 200, transport  no answer  fail (cancelled by us: neutral)
func ClassifyLookup(ex Exchange, ans LookupAnswer, own bool) LookupReading {
	none := func(h Verdict, reason, alert string) LookupReading {
		return LookupReading{Verdict: LookupNoAnswer, Health: h, Reason: reason, Alert: alert}
	}
	switch {
	case ex.Cancelled && (ex.Err != nil || ex.Status == 0):
		return none(HealthNeutral, lookupTrouble(ex), "")
	case ex.Err != nil || ex.Status == 0:
		return none(HealthFail, lookupTrouble(ex), "")
	case ex.Status == http.StatusOK:
		return readFound(ex, ans, own)
	case ex.Status == http.StatusNotFound && isHTML(ex):
		return none(HealthNeutral, ReasonProxyNotFound, AlertContract)
	case ex.Status == http.StatusNotFound:
		return absent(own)
	case ex.Status == http.StatusUnauthorized:
		return none(HealthNeutral, ReasonUnauthorized, AlertConfig)
	case ex.Status == http.StatusForbidden:
		return none(HealthNeutral, ReasonForbidden, AlertConfig)
	case ex.Status == http.StatusTooManyRequests || ex.Status == http.StatusTooEarly:
		return none(HealthNeutral, ReasonThrottled, "")
	case ex.Status >= 300 && ex.Status < 400:
		return none(HealthFail, ReasonRedirect, AlertRedirects)
	case ex.Status >= 500 || ex.Status == http.StatusRequestTimeout:
		return none(HealthFail, fmt.Sprintf("http_%d", ex.Status), "")
	}
	return none(HealthNeutral, fmt.Sprintf("http_%d", ex.Status), AlertContract)
}

func lookupTrouble(ex Exchange) string {
	if ex.MaybeSent() {
		return brokenReason(ex)
	}
	return notSentReason(ex)
}

func absent(own bool) LookupReading {
	r := LookupReading{Verdict: LookupAbsent, Health: HealthOK, Reason: ReasonNotFound}
	if !own {
		r.Verdict = LookupNoAnswer
	}
	return r
}

func readFound(ex Exchange, ans LookupAnswer, own bool) LookupReading {
	r := LookupReading{Verdict: LookupNoAnswer, Health: HealthNeutral}
	switch {
	case ex.oversized():
		r.Health, r.Reason = HealthFail, ReasonBodyTooLarge
	case ans.Malformed:
		r.Health, r.Reason = HealthFail, ReasonNotJSON
	case ans.DecodeErr != nil:
		r.Reason, r.Alert = ReasonContract, AlertContract
	case len(ans.Objects) > 0:
		r.Verdict, r.Health, r.Reason = LookupFound, HealthOK, ReasonFound
	case ans.Ignored, ans.More:
		r.Reason, r.Alert = ReasonFilterIgnored, AlertContract
	default:
		return absent(own)
	}
	return r
}

// isHTML reports whether an answer is a page for people: a proxy's or a website's,
// never the word of a provider that speaks JSON.
func isHTML(ex Exchange) bool {
	return strings.Contains(strings.ToLower(ex.ContentType), "html") || bytes.HasPrefix(bytes.TrimSpace(ex.Body), []byte("<"))
}
