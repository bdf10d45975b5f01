// Package components holds the pieces every page is built from. They take small
// view models, render complete accessible HTML, and need no JavaScript; scripts in
// static/js only make them quicker. Components use no style attributes (the
// Content-Security-Policy forbids them): looks come from static/css.
//
// # How a page is put together
//
//	@views.Layout(page) {                             // header, rail, banners
//		@components.Head(views.T(ctx, "payments.title"), "") { ...actions... }
//		@components.Tabs("Status", tabs)
//		@components.Live(components.LiveRegion{ID: "payments", Topic: "payments", URL: url, Rev: rev}) {
//			@components.Scroll("Payments") {
//				<table class="table stack"> ... <td data-label="Amount" class="num"> ... </table>
//			}
//		}
//		@components.Pager(components.Pages{Older: href})
//	}
//
// # What there is
//
//   - Status, Circuit, Badge: word + icon + shape in a tone
//   - Icon: 16 px line icons by name, hidden from screen readers
//   - Button, LinkButton, Denied: actions; Mutates disarms them while the page is
//     stale; Denied says which role may
//   - Head, Section, Card, Metric, Terms (definition list), Empty, Note
//   - Tabs, FilterBar, Pager, Scroll (wrapper of a wide table)
//   - Input, TextArea, Select, Hidden, Errors: form fields with hint and error
//   - Confirm: the page every changing action passes through
//   - Ago, At, Until: machine-readable <time>; Money; Mono; Copy; Code
//   - Timeline: items of one payment's history
//   - Spark: a sparkline with a text alternative
//   - Live: a region that refetches itself when its topic changes
//   - Flash: the one sentence after an action
//
// # Tables
//
// table.table is dense with a sticky head; add "stack" and data-label on each td to
// make rows into cards below 640 px. Cell classes: num (right, tabular), tight (no
// wrap), actions, muted, clip (one line, ellipsis), main (the cell that names the
// row). Give every tr a stable id so that live updates keep selection and focus.
//
// # Texts
//
// Labels come in translated; components translate only their own words. Everything
// that comes from a provider or a customer is text, never templ.Raw.
package components
