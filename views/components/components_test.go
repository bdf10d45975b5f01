package components

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"github.com/stretchr/testify/require"

	"fusebox/views/messages"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// html renders a component in English at noon UTC.
func html(t *testing.T, c templ.Component) string {
	t.Helper()
	return htmlIn(t, messages.English, c)
}

func htmlIn(t *testing.T, lang messages.Lang, c templ.Component) string {
	t.Helper()
	var buf bytes.Buffer
	ctx := messages.With(context.Background(), messages.Locale{Lang: lang, Zone: time.UTC, Now: noon})
	require.NoError(t, c.Render(ctx, &buf))
	require.NotContains(t, buf.String(), " style=", "the Content-Security-Policy forbids style attributes")
	return buf.String()
}

// with gives a component children.
func with(c, children templ.Component) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		return c.Render(templ.WithChildren(ctx, children), w)
	})
}

// bare cuts the drawing out of icons and the space between tags, so that
// expectations stay readable.
func bare(s string) string {
	s = strings.ReplaceAll(s, "> <", "><")
	var b strings.Builder
	for {
		start := strings.Index(s, "<svg class=\"icon")
		if start < 0 {
			return b.String() + s
		}
		end := strings.Index(s[start:], "</svg>") + start + len("</svg>")
		name := strings.TrimPrefix(strings.SplitN(s[start:], "\"", 3)[1], "icon icon-")
		b.WriteString(s[:start] + "[" + name + "]")
		s = s[end:]
	}
}

func TestStatusIsAWordAShapeAndATone(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for status, want := range map[string]string{
		"unknown":         `<span class="badge tone-warn">[status-unknown]<span>Unknown</span></span>`,
		"pending":         `<span class="badge tone-idle">[status-pending]<span>Pending</span></span>`,
		"processing":      `<span class="badge tone-info">[status-processing]<span>Processing</span></span>`,
		"requires_action": `<span class="badge tone-act">[status-requires_action]<span>Needs customer</span></span>`,
		"succeeded":       `<span class="badge tone-ok">[status-succeeded]<span>Paid</span></span>`,
		"failed":          `<span class="badge tone-bad">[status-failed]<span>Failed</span></span>`,
	} {
		got := html(t, Status(status))
		require.Equal(t, want, bare(got))
		shape := got[strings.Index(got, "focusable"):strings.Index(got, "</svg>")]
		require.False(t, seen[shape], "two statuses share a shape")
		seen[shape] = true
	}
	require.Contains(t, htmlIn(t, messages.Ukrainian, Status("unknown")), "Невідомо")
}

func TestCircuitsHaveShapesOfTheirOwn(t *testing.T) {
	t.Parallel()
	require.Equal(t, `<span class="badge tone-ok">[circuit-closed]<span>Closed</span></span>`, bare(html(t, Circuit("closed"))))
	require.Equal(t, `<span class="badge tone-bad">[circuit-open]<span>Open</span></span>`, bare(html(t, Circuit("open"))))
	require.Equal(t, `<span class="badge tone-warn">[circuit-half_open]<span>Half-open</span></span>`, bare(html(t, Circuit("half_open"))))
}

func TestTimesAreMachineReadableWithTheAbsoluteInTheTitle(t *testing.T) {
	t.Parallel()
	require.Equal(t, `<time datetime="2026-03-02T11:57:00Z" title="2026-03-02 11:57:00 UTC" data-relative>3`+"\u00a0"+`min ago</time>`,
		html(t, Ago(noon.Add(-3*time.Minute))))
	require.Equal(t, `<span class="muted">never</span>`, html(t, AgoPtr(nil)))
	require.Contains(t, html(t, At(noon)), ">12:00:00</time>")
}

func TestMoneyShowsTheISOCode(t *testing.T) {
	t.Parallel()
	require.Equal(t, `<span class="money">49.00&nbsp;<span class="cur">EUR</span></span>`, html(t, Money(4900, "EUR")))
	require.Contains(t, htmlIn(t, messages.French, Money(4900, "EUR")), "49,00")
}

func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	const evil = `"><script>alert(1)</script>`
	for name, c := range map[string]templ.Component{
		"badge": Badge(ToneBad, "", evil), "empty": Empty("x", evil, evil), "code": Code(evil, evil),
		"block": CodeBlock(evil), "terms": Terms([]Term{{Label: evil, Value: evil, Copy: true}}),
		"input": Input(Field{ID: "a", Label: evil, Value: evil, Error: evil, Hint: evil}),
		"area":  TextArea(Field{ID: "a", Label: evil, Value: evil}), "flash": Flash(FlashProps{Text: evil}),
		"timeline": Timeline([]TimelineItem{{ID: "i", Title: evil, Who: evil, Lines: []string{evil}}}),
		"live":     Live(LiveRegion{ID: "i", Topic: "payments", URL: "/?q=" + evil}),
	} {
		require.NotContains(t, html(t, c), "<script", name)
	}
	require.NotContains(t, html(t, LinkButton(ButtonProps{Label: "x", Href: templ.URL("javascript:alert(1)")})), "javascript:")
}

func TestFieldsTieHintAndErrorToTheInput(t *testing.T) {
	t.Parallel()
	require.Equal(t, `<div class="field field-bad"><label for="reason">Reason <span class="field-required">(required)</span></label>`+
		`<p class="field-error" id="reason-error">[warn] Write one</p>`+
		`<input id="reason" name="why" type="text" value="x" aria-describedby="reason-error reason-hint" aria-invalid="true" maxlength="500" required>`+
		`<p class="field-hint" id="reason-hint">Kept</p></div>`,
		bare(html(t, Input(Field{ID: "reason", Name: "why", Label: "Reason", Value: "x", Error: "Write one", Hint: "Kept", Required: true, Max: 500}))))
	require.NotContains(t, html(t, Input(Field{ID: "a", Label: "A"})), "aria-")
}

func TestSelectMarksTheCurrentChoice(t *testing.T) {
	t.Parallel()
	got := html(t, Select(Field{ID: "p", Label: "P", Value: "b", Options: []Option{{"a", "A"}, {"b", "B"}}}))
	require.Contains(t, got, `<option value="a">A</option><option value="b" selected>B</option>`)
}

func TestErrorsLinkToTheirFields(t *testing.T) {
	t.Parallel()
	require.Empty(t, html(t, Errors(nil)))
	got := html(t, Errors([]FieldError{{"reason", "Write one"}, {"amount", "Too much"}}))
	require.Contains(t, got, `role="alert"`)
	require.Contains(t, got, "There are problems with this form")
	require.Contains(t, got, `<li><a href="#reason">Write one</a></li><li><a href="#amount">Too much</a></li>`)
}

func TestConfirmCarriesTheActionIDAndWhatThePersonSaw(t *testing.T) {
	t.Parallel()
	got := html(t, Confirm(ConfirmProps{
		Title: "Reset atlas", Lead: "Close the circuit now?", Action: "/providers/atlas/charge/reset", Cancel: "/providers",
		ActionID: "id-1", Hidden: []HiddenField{{"epoch", "17"}}, Danger: true, Submit: "Close",
		Consequences: []Consequence{{Text: "41 queued payments start."}, {Text: "Some may become unknown.", Tone: ToneWarn}},
		Reason:       &Field{ID: "reason", Label: "Reason", Required: true},
	}))
	require.Contains(t, got, `<form method="post" action="/providers/atlas/charge/reset"`)
	require.Contains(t, got, `<input type="hidden" name="action_id" value="id-1"><input type="hidden" name="epoch" value="17">`)
	require.Contains(t, got, "41 queued payments start.")
	require.Contains(t, got, `<li class="tone-warn">`)
	require.Contains(t, got, `<button type="submit" class="btn btn-danger" data-mutates>`)
	require.Contains(t, got, `<a class="btn btn-quiet" href="/providers" data-close>Cancel, change nothing</a>`)
}

func TestABlockedConfirmHasNoSubmit(t *testing.T) {
	t.Parallel()
	got := html(t, Confirm(ConfirmProps{Title: "T", Action: "/a", Cancel: "/b", Submit: "Do it", Blocked: "Closed already.", Problem: "Olena was first."}))
	require.NotContains(t, got, "Do it")
	require.Contains(t, got, "Closed already.")
	require.Contains(t, got, `role="alert"`)
	require.Contains(t, got, "Olena was first.")
}

func TestDeniedSaysWhichRoleMay(t *testing.T) {
	t.Parallel()
	require.Equal(t, `<span class="denied"><span class="btn btn-off" aria-disabled="true">Reset</span><span class="denied-why">Only Operator may do this</span></span>`,
		bare(html(t, Denied("Reset", "operator"))))
}

func TestTabsNameTheCurrentOne(t *testing.T) {
	t.Parallel()
	got := bare(html(t, Tabs("Status", []Tab{{Label: "Unknown", Href: "/?s=u", Count: "12", Status: "unknown", Current: true}, {Label: "All", Href: "/"}})))
	require.Contains(t, got, `<a href="/?s=u" aria-current="page"><span class="shape tone-warn">[status-unknown]</span><span>Unknown</span><span class="count">12</span></a>`)
	require.Contains(t, got, `<a href="/"><span>All</span></a>`)
}

func TestPagerShowsMissingNeighboursAsOff(t *testing.T) {
	t.Parallel()
	got := html(t, Pager(Pages{Older: "/p?after=1", Note: "50 of 10,000+"}))
	require.Contains(t, got, `<span class="btn btn-small btn-off" aria-disabled="true">Newer</span>`)
	require.Contains(t, got, `<a class="btn btn-small" href="/p?after=1" rel="next">Older</a>`)
}

func TestLiveRegionFetchesItselfWhenItsTopicMoves(t *testing.T) {
	t.Parallel()
	got := html(t, with(Live(LiveRegion{ID: "list", Topic: "payments", URL: "/payments?status=unknown&page=2", Rev: "ab-7"}), templ.Raw("<p>x</p>")))
	require.Equal(t, `<div id="list" class="live" data-live="payments" data-rev="ab-7" hx-get="/payments?status=unknown&amp;page=2" `+
		`hx-trigger="live:payments from:body" hx-swap="morph:outerHTML" hx-ext="morph"><p>x</p></div>`, got)
}

func TestTimelineShowsSilencesAndWhatComesNext(t *testing.T) {
	t.Parallel()
	got := bare(html(t, Timeline([]TimelineItem{
		{ID: "e1", At: noon, Icon: "send", Title: "Sent"},
		{ID: "e2", At: noon.Add(time.Minute), Gap: "1 min without news", Future: true, Icon: "clock", Title: "Next check", Details: templ.Raw("d")},
	})))
	require.Contains(t, got, `<li class="timeline-gap"><span>1 min without news</span></li>`)
	require.Contains(t, got, `<li id="e2" class="timeline-item tone-idle timeline-future">`)
	require.Contains(t, got, `<details id="e2-details"><summary>Details</summary>d</details>`)
}

func TestSparkScalesBothSeriesToTheSameTop(t *testing.T) {
	t.Parallel()
	s := SparkProps{ID: "s", Label: "Paid: 3; last week: 4", Now: []int64{0, 3}, Before: []int64{4, 0}, Tone: ToneOK, Columns: []string{"12:00", "12:02"}}
	got := html(t, Spark(s))
	require.Contains(t, got, `role="img" aria-label="Paid: 3; last week: 4"`)
	require.Contains(t, got, `d="M136.8 11.5h86.4V40h-86.4z"`, "3 of 4 of the height, in the second half")
	require.Contains(t, got, `d="M0 1h120L120 39h120"`)
	table := html(t, SparkTable(s, "last week: 4", "Now", "Before"))
	require.Contains(t, table, `<th scope="row">12:02</th><td class="num">3</td><td class="num">0</td>`)
}

func TestSparkOfNothingIsABaseline(t *testing.T) {
	t.Parallel()
	got := html(t, Spark(SparkProps{ID: "s", Label: "none", Now: make([]int64, 30)}))
	require.Contains(t, got, `class="spark-now" d=""`)
	require.NotContains(t, got, "NaN")
}

func TestEveryIconIsDrawnAndHidden(t *testing.T) {
	t.Parallel()
	unknown := html(t, Icon("no-such-icon"))
	for _, name := range []string{"overview", "payments", "queue", "providers", "queues", "webhooks", "reconciliation", "alerts",
		"wallets", "audit", "checkout", "faults", "search", "copy", "check", "close", "menu", "warn", "info", "arrow", "back",
		"refresh", "play", "pause", "user", "download", "filter", "clock", "send", "shield"} {
		got := html(t, Icon(name))
		require.Contains(t, got, `aria-hidden="true"`)
		require.NotEqual(t, strings.ReplaceAll(unknown, "no-such-icon", name), got, name)
	}
}
