package views

import (
	"bytes"
	"context"
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/views/messages"
)

var chartEpoch = time.Date(2026, 3, 2, 14, 0, 0, 0, time.UTC)

func chartContext() context.Context {
	return messages.With(context.Background(), messages.Locale{Lang: messages.English, Now: chartEpoch.Add(time.Hour)})
}

// quarter is a chart of four minutes with four columns.
func quarter() ChartView {
	at := func(m float64) time.Time { return chartEpoch.Add(time.Duration(m * float64(time.Minute))) }
	return ChartView{From: at(0), To: at(4),
		Buckets: []ChartBucket{{At: at(0), OK: 8, P95: 100 * time.Millisecond}, {At: at(1), OK: 4, Fail: 4, P95: 200 * time.Millisecond},
			{At: at(2)}, {At: at(3), OK: 1, Neutral: 1, P95: 50 * time.Millisecond}},
		Real:     []ChartPeriod{{At: at(2), Until: at(3), Label: "real"}},
		Replayed: []ChartPeriod{{At: at(1), Until: at(9), Label: "replayed"}, {At: at(3.5), Until: at(3.6), Guess: true, Label: "guess"}}}
}

func TestChartColumnsStackFromTheFloor(t *testing.T) {
	t.Parallel()
	bars := quarter().bars()
	require.Len(t, bars, 5)
	require.Equal(t, chartBar{Class: "ok", X: "0%", Y: "18", W: "22%", H: "132", bucket: 0, amount: 8}, bars[0], "the tallest is as tall as the chart")
	require.Equal(t, chartBar{Class: "ok", X: "25%", Y: "84", W: "22%", H: "66", bucket: 1, amount: 4}, bars[1])
	require.Equal(t, chartBar{Class: "fail", X: "25%", Y: "18", W: "22%", H: "66", bucket: 1, amount: 4}, bars[2], "failures on top")
	require.Equal(t, "neutral", bars[4].Class)
	require.Equal(t, "75%", bars[4].X, "nothing is drawn where nothing was called")
}

func TestChartLatencyStopsWhereNothingWasCalled(t *testing.T) {
	t.Parallel()
	lines := quarter().latency()
	require.Equal(t, []chartLine{{"0%", "211", "25%", "211"}, {"25%", "211", "25%", "194"}, {"25%", "194", "50%", "194"}, {"75%", "219.5", "100%", "219.5"}}, lines)
	require.Empty(t, ChartView{From: chartEpoch, To: chartEpoch.Add(time.Minute)}.latency())
}

func TestChartStripsStayInside(t *testing.T) {
	t.Parallel()
	c := quarter()
	require.Equal(t, []chartStretch{{"chart-open", "50%", "25%", "real"}}, c.strip(c.Real))
	require.Equal(t, []chartStretch{{"chart-open", "25%", "75%", "replayed"}, {"chart-open chart-guess", "87.5%", "2.5%", "guess"}}, c.strip(c.Replayed))
}

func TestChartTicksAreRoundMomentsOfTheReadersZone(t *testing.T) {
	t.Parallel()
	kathmandu, err := time.LoadLocation("Asia/Kathmandu") // UTC+5:45
	require.NoError(t, err)
	ctx := messages.With(context.Background(), messages.Locale{Zone: kathmandu, Now: chartEpoch})
	c := ChartView{From: chartEpoch.Add(-24 * time.Hour), To: chartEpoch}
	var labels []string
	for _, tick := range c.ticks(ctx) {
		labels = append(labels, tick.Label)
	}
	require.Equal(t, []string{"21:00", "03-02", "03:00", "06:00", "09:00", "12:00", "15:00", "18:00"}, labels)

	labels = nil
	for i, tick := range quarter().ticks(chartContext()) {
		labels = append(labels, tick.Label)
		require.Equal(t, i%2 == 1, tick.Minor)
	}
	require.Equal(t, []string{"14:01", "14:02", "14:03"}, labels)
}

func TestChartOfAnyRangeHasFewTicks(t *testing.T) {
	t.Parallel()
	for _, span := range []time.Duration{time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 72 * time.Hour, 7 * 24 * time.Hour, 14 * 24 * time.Hour} {
		n := len(ChartView{From: chartEpoch.Add(-span), To: chartEpoch}.ticks(chartContext()))
		require.LessOrEqual(t, n, maxTicks+1, span)
	}
}

func TestChartIsWellFormedAndSpeaks(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	require.NoError(t, Chart(quarter()).Render(chartContext(), &buf))
	html := buf.String()
	svg := html[strings.Index(html, "<svg"):strings.Index(html, "</svg>")] + "</svg>"
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
	}
	require.Contains(t, svg, `role="img" aria-labelledby="chart-title chart-desc"`)
	require.Contains(t, svg, "13 good, 4 failed and 1 neutral calls. Really open: 1; open in the replay: 2.")
	require.Contains(t, svg, "<title>14:01:00: 4 failed</title>")
	require.Contains(t, svg, "up to 8 calls per 1\u00a0min")
	require.Contains(t, html, "Times in UTC")
	require.Equal(t, 3, strings.Count(html[strings.Index(html, "<tbody>"):], `<th scope="row">`), "columns without calls are not rows")
	require.NotContains(t, html, "style=")
}
