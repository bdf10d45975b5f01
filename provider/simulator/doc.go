// Package simulator is a stand-in payment provider: a real HTTP server that
// speaks the gateway contract (see provider/gateway), keeps a durable ledger of
// its own, sends signed webhooks, and misbehaves on demand. It imports nothing
// of Fusebox's and knows nothing of its engine; its ledger is the ground truth
// that an audit compares our books with.
//
// The same process speaks Stripe's API as well, under /v1/ (see FaceStripe): the ledger,
// the faults and the control API are one, and a charge's answers and events keep to the
// API it was made through.
//
// # Picking a fault
//
// Every fault has a name, a kind and a number (the Catalogue). There are three
// ways to get one:
//
//   - By rate, drawn from a hash of seed and payment reference: the same payment
//     draws the same fault in every run. A charge request draws at most one charge
//     fault; webhook and lookup faults are drawn apart from it and from each other.
//     A drawn charge fault hits only the first request that executes a reference,
//     so retries end; at rate 1 it hits every one.
//   - By order reference: "fault:NAME" anywhere in order_ref, several separated by
//     commas ("fault:throttle_429*3,webhook_late"). A charge fault hits the first
//     request of the payment, or the first N with "NAME*N"; a lookup fault every
//     lookup, or the first N; a webhook fault every event, and N is the number of
//     copies or of spoilt tries. "fault:none" is a payment nothing happens to.
//   - By amount: 66600 + the fault's number in minor units, so that a person at a
//     checkout gets a 502 after the charge by paying 666.04.
//
// A pick by reference or amount switches the draws by rate off for that payment.
//
// A refund is a request like a charge, and the charge faults happen to it as well ("charged"
// meaning given back); a customer's action is not among them: there it is processing. Its
// faults are picked by "fault:NAME" in its own reference, by "refunds:NAME" in the order
// reference of its charge, or by its amount. "refunds:NAME" picks nothing for the charge;
// "fault:NAME" of the charge only switches the draws by rate off for its refunds.
//
// Outages concern the whole provider, its webhooks too, and are switched, not
// drawn. OutageCharges alone leaves questions and GET /health answered.
//
// # The control API
//
// It has a listener of its own, so that an outage never cuts it off. Bad input is
// 400 {"error":{"code","message","errors":[{"field","reason"}]}}.
//
//	GET  /_sim/faults                  {"name","rates":{fault:rate},"outage","outage_until","timing":{name:"3s"}}
//	PUT  /_sim/faults                  any of "preset", "rates" (merged; 0 ends a fault), "outage",
//	                                   "outage_for" ("20s"), "timing"; answers like GET
//	GET  /_sim/catalogue               [{"name","kind","code","text"}]
//	GET  /_sim/ledger                  [Account], oldest first: each charge with its refunds and disputes; the ground truth
//	GET  /_sim/stats                   Stats
//	POST /_sim/reset                   forgets ledger, events and statistics, ends every fault
//	PUT  /_sim/webhook                 {"url","secrets"?}
//	POST /_sim/payments                {"reference","amount","currency","status"?,"order_ref"?,"face"?}: a charge nobody asked for
//	POST /_sim/payments/{id}/complete  {"status"}: decides a waiting charge
//	POST /_sim/payments/{id}/events    {"type"?,"status"?,"amount"?,"currency"?}: an event that may lie
//	POST /_sim/payments/{id}/refunds   {"amount"?,"reference"?,"status"?}: a refund made in the dashboard; without an
//	                                   amount, of all that is left
//	POST /_sim/payments/{id}/disputes  {"amount"?,"reason"?,"due_by"?}: a dispute is opened
//	POST /_sim/refunds/{id}/complete, /events  as for payments
//	POST /_sim/disputes/{id}/decide    {"status"}: won or lost; either may follow the other
package simulator
