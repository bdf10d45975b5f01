package provider

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClassifyPing(t *testing.T) {
	t.Parallel()
	answered := func(status int) Exchange {
		return Exchange{WireSends: 1, HeaderWritten: true, Status: status, BodyComplete: true}
	}
	cut := answered(200)
	cut.BodyComplete, cut.Err = false, errors.New("unexpected EOF")
	stopped := Exchange{WireSends: 1, HeaderWritten: true, Err: errors.New("canceled"), Cancelled: true}
	page := answered(404)
	page.ContentType = "text/html"
	for name, tt := range map[string]struct {
		ex       Exchange
		readable bool
		health   Verdict
		reason   string
	}{
		"ok":              {answered(200), true, HealthOK, ReasonAnswered},
		"no content":      {answered(204), true, HealthOK, ReasonAnswered},
		"page for people": {answered(200), false, HealthFail, ReasonNotJSON},
		"503":             {answered(503), true, HealthFail, "http_503"},
		"408":             {answered(408), true, HealthFail, "http_408"},
		"redirect":        {answered(302), true, HealthFail, ReasonRedirect},
		"no such path":    {answered(404), true, HealthNeutral, ReasonNotFound},
		"a website's 404": {page, false, HealthNeutral, ReasonProxyNotFound},
		"401":             {answered(401), true, HealthNeutral, ReasonUnauthorized},
		"403":             {answered(403), true, HealthNeutral, ReasonForbidden},
		"429":             {answered(429), true, HealthNeutral, ReasonThrottled},
		"405":             {answered(405), true, HealthNeutral, "http_405"},
		"cut":             {cut, false, HealthFail, ReasonBodyCut},
		"refused":         {Exchange{Err: &ConnectError{Phase: ReasonDial, Err: errors.New("refused")}}, false, HealthFail, ReasonDial},
		"we stopped":      {stopped, false, HealthNeutral, ReasonShutdownAfter},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ClassifyPing(tt.ex, tt.readable)
			require.Equal(t, tt.health, got.Health)
			require.Equal(t, tt.reason, got.Reason)
		})
	}
}
