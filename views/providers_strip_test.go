package views

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// day is a strip of 24 hours; from and to of a piece are in minutes.
func day(pieces ...StripPiece) StripView {
	return StripView{ID: "strip-x", From: chartEpoch, To: chartEpoch.Add(24 * time.Hour), Pieces: pieces, Times: 1}
}

func piece(state string, from, to float64) StripPiece {
	at := func(m float64) time.Time { return chartEpoch.Add(time.Duration(m * float64(time.Minute))) }
	return StripPiece{State: state, At: at(from), Until: at(to)}
}

func TestAFlappingCircuitDrawsFewPieces(t *testing.T) {
	t.Parallel()
	var pieces []StripPiece
	for i := range 2880 { // half a minute open, half a second probing, all day
		from := float64(i) / 2
		pieces = append(pieces, piece("open", from, from+0.49), piece("half_open", from+0.49, from+0.5))
	}
	drawn := day(pieces...).drawn()
	require.Equal(t, []StripPiece{piece("open", 0, 1440)}, drawn)
}

func TestAStripKeepsWhatCanBeSeen(t *testing.T) {
	t.Parallel()
	v := day(piece("open", 0, 60), piece("half_open", 60, 120), piece("open", 600, 601))
	require.Equal(t, v.Pieces, v.drawn(), "an hour of probing is a piece of its own")
	require.Equal(t, 121*time.Minute, v.blocked())
}

func TestATimeStripSpeaksAndNeedsNoColour(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	v := day(piece("open", 0, 60), piece("half_open", 60, 150))
	v.Unknown = chartEpoch.Add(-time.Hour)
	require.NoError(t, timeStrip(v).Render(chartContext(), &buf))
	html := buf.String()
	require.Contains(t, html, `role="img" aria-label="Last 24 h: open once, calls blocked for 2`+"\u00a0h 30\u00a0min"+`"`)
	require.Contains(t, html, `<rect class="strip-open" x="0%" y="0.5" width="4.167%" height="11"><title>Open, 14:00:00–15:00:00</title>`)
	require.Contains(t, html, `<rect class="strip-half_open" x="4.167%" y="6" width="6.25%" height="5.5">`, "half as tall: told apart without colour")
	require.Contains(t, html, "too many changes to show them all")

	buf.Reset()
	require.NoError(t, timeStrip(day()).Render(chartContext(), &buf))
	require.Equal(t, 2, strings.Count(buf.String(), "Last 24 h: never open"), "for eyes and for ears")
	require.NotContains(t, buf.String(), "strip-open")
}
