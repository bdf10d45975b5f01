// Package stripe is the adapter for Stripe: one PaymentIntent per payment, created and
// confirmed in one request, with the payer absent ("off session").
//
// # What stripe-go does here, and what it does not
//
// stripe-go (pinned in go.mod; its API version goes out as Stripe-Version) encodes the
// request, sets the headers and knows Stripe's words and its signature. Three of its
// habits would cost money, so they are off or replaced:
//
//   - It retries by itself, twice by default. MaxNetworkRetries is 0 here, and a second
//     request of one call is refused even if that changes.
//   - It sends through net/http's Client with a replayable body, which resends a keyed
//     POST when a kept-alive connection is cut. Its HTTP client here is a round tripper
//     (client.go) that hands the bytes to provider.Caller: one wire send, no redirects,
//     the provider's own deadline, and the facts of the wire as evidence.
//   - It decodes answers into its own types, and one member of another shape makes a
//     whole PaymentIntent undecodable. Answers and events are read from their raw bytes
//     instead, and only the members that matter (shapes.go), so events rendered in
//     another API version are read as well. The frozen request goes out byte for byte
//     through its CallRaw.
//
// It also sends no telemetry and no description of this machine.
//
// # A charge
//
// POST /v1/payment_intents with confirm and off_session, our payment id in
// metadata[payment_id], the order reference in metadata[order_ref], and the operation's
// Idempotency-Key, which Stripe remembers for 24 hours. What it charges is the stored
// payment method named in our payment's metadata (payment_method: pm_…, customer_id:
// cus_…); a test account without one charges Stripe's test card.
//
//	succeeded                               succeeded
//	processing, requires_capture            processing
//	requires_action, requires_confirmation  requires_action
//	canceled                                failed
//	requires_payment_method                 failed once an attempt was made; requires_action
//	                                        if the payer's bank asks for them (authentication_required)
//	anything else                           unknown, review
//
// A success needs amount and amount_received to agree. Stripe-Should-Retry: true under a
// refusal means that Stripe has not decided: the payment stays unknown and is looked up.
//
// # Asking
//
// By id, and by reading through the list of the time in which the charge can have been made
// (created[gte] and [lte]: the first send less five minutes that clocks may differ, to the
// last one and eight minutes more), because Stripe cannot filter a list by metadata. One
// lookup reads at most twenty pages of 100; the next one goes on from there, ten seconds
// later, up to 25 times, once it is late enough for an absence to count. Only a list that
// was read to its end shows one. Stripe's search knows metadata, and lags, up to an hour in
// an outage: it is only asked where a lookup has to stop, what it finds is fetched by id
// before it is believed, and what it does not find proves nothing.
//
// # Manual capture
//
// With capture_method=manual the intent stops at requires_capture, which is processing
// with the amount that is held; when it lapses is not said without expanding the charge.
// POST /v1/payment_intents/{id}/capture takes amount_to_capture, once, and lets go of the
// rest; POST /v1/payment_intents/{id}/cancel lets go of all of it, with the reason
// requested_by_customer. Both have a key of their own and answer with the intent, which is
// the only object there is: a lost answer is looked up by the intent's id, and
// requires_capture is Stripe's word that nothing was done. A canceled intent whose reason is
// automatic or expired lapsed; any other was voided.
//
// # Refunds and disputes
//
// POST /v1/refunds refunds an intent, whole or in part, with our operation id in
// metadata[operation_id] and a key of its own. Stripe filters refunds by their charge, so a
// refund whose answer was lost is found, or known to be absent, by that short list. Events
// about refunds (also those made in Stripe's dashboard) and disputes are read; a dispute is
// opened, won or lost, and a warning that closes took no money.
//
// # Accounts
//
// The key's mode (sk_test_, sk_live_) is part of every match: an object or event of the
// other mode is not ours. So is the account: a connected one, named in the settings
// (acct_…), goes out as Stripe-Account with every request, and an event of another account
// than that, or of any connected one where none is named, is not ours either. Several
// providers of this kind run side by side with keys and signing secrets of their own.
package stripe
