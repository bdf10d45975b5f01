// Package gateway is the adapter for providers that speak Fusebox's own generic
// JSON contract; provider/simulator is a server for it. The contract, in full:
//
// Authentication: "Authorization: Bearer KEY". A wrong key is 401, a forbidden
// account 403; neither executes anything. Every answer carries "Request-Id".
//
// # POST /payments — make a charge
//
// Headers "Content-Type: application/json" and "Idempotency-Key" (1–255 printable
// ASCII characters). Body:
//
//	{"reference": "our payment id", "amount": 4900, "currency": "EUR",
//	 "description": "...", "order_ref": "...", "customer": {"name": "...", "email": "..."},
//	 "capture": "manual"}
//
// With "capture" the money is held and not taken; absent, it is taken at once.
// The amount is an integer in the currency's ISO minor unit. Answers:
//
//	200 {"id":"pay_…","reference":"…","status":"succeeded","amount":4900,"currency":"EUR",
//	     "created_at":"RFC 3339","idempotency_key":"…"}
//	202 the same with status "processing": decided later, told by event
//	200 with status "requires_action" and "action_url"
//	200 with status "requires_capture", "authorised_until":"RFC 3339" and
//	    "totals":{"authorised":4900,"captured":0,"refunded":0}: held
//	402 {"error":{"code":"card_declined","message":"…"},"id":"pay_…","status":"failed",…}
//	400, 422 {"error":{"code":"invalid_request","message":"…","field":"…"}}; not executed
//	400 {"error":{"code":"idempotency_key_reused",…}}: same key, other parameters
//	409 {"error":{"code":"idempotency_key_in_use",…}}: the first call is still running
//	429 with Retry-After (seconds or HTTP-date); not executed
//	5xx {"error":{…}} or anything a proxy makes up: the truth is unknown
//
// Decline codes: card_declined, insufficient_funds, expired_card, do_not_honor,
// incorrect_cvc, lost_card, stolen_card, limit_exceeded, fraud_suspected,
// payment_declined; of refunds: refund_declined, insufficient_balance; of captures: capture_declined.
// They mean "declined" in whatever status they come; a 402 means it with any code. The two
// idempotency codes, and already_processed, duplicate_payment, already_refunded,
// already_captured and already_voided (it exists: look it up), count under any 4xx.
//
// The same key and body within the key's life (24 h) returns the stored answer,
// 500s included, with "Idempotent-Replayed: true".
//
// Statuses: succeeded, processing, requires_action, requires_capture (→ processing),
// failed, canceled (→ failed). Anything else is not in the contract.
//
// A payment that succeeded carries its running figures, in its own currency:
// "totals":{"captured":4900,"refunded":1000}; refunded counts what has gone back, not
// refunds that are still processing.
//
// # POST /payments/{id}/capture, POST /payments/{id}/void — take what is held, or let it go
//
// Headers as above, under a key of its own. Body, the reference being our operation id; a
// void has no amount:
//
//	{"reference": "our operation id", "amount": 600, "currency": "EUR"}
//
// A capture takes the amount, which may be a part, once, and lets go of the rest. The
// answer is the payment; there is no other object:
//
//	200 {"id":"pay_…","status":"succeeded","amount":4900,
//	     "totals":{"authorised":4900,"captured":600,"refunded":0},…}
//	200 with status "canceled" and "error":{"code":"voided",…}: let go
//	202 with status "requires_capture": decided later, told by event
//	402 {"error":{"code":"capture_declined",…},"id":"pay_…","status":"requires_capture",…}
//	404 no such payment; 405 not to be had; neither executes anything
//	422 {"error":{"code":"exceeds_authorised",…}}; {"error":{"code":"not_capturable",…}}: nothing
//	    is held; already_captured, already_voided
//	400 401 403 409 429 5xx as for a charge
//
// The captured amount of a payment that was held is totals.captured, whatever its amount.
// An authorisation that nobody captures in time becomes canceled, with the error code
// authorisation_expired.
//
// # POST /payments/{id}/refunds — give money back
//
// Headers as above, under a key of its own. Body, the reference being our operation id:
//
//	{"reference": "our operation id", "amount": 1000, "currency": "EUR"}
//
// Answers like a charge's, about the refund:
//
//	200 {"id":"ref_…","payment_id":"pay_…","payment_reference":"our payment id","reference":"…",
//	     "status":"succeeded","amount":1000,"currency":"EUR","created_at":"…","idempotency_key":"…"}
//	202 the same with status "processing": decided later, told by event
//	402 {"error":{"code":"refund_declined",…},"id":"ref_…","status":"failed",…}
//	404 no such payment; 405 refunds are not to be had; neither executes anything
//	422 {"error":{"code":"exceeds_refundable",…}}: more than is left of the payment;
//	    {"error":{"code":"not_refundable",…}}: it took no money
//	400 401 403 409 429 5xx as for a charge
//
// A refund is executed at most once for its key, and its charge is among the parameters
// the key stands for. Statuses: succeeded, processing, failed, canceled (→ failed).
//
// # Asking
//
//	GET /payments/{id}                     200 object | 404
//	GET /payments?idempotency_key=K        200 {"data":[object…]} (empty when there is none)
//	GET /payments?reference=R              the same; more than one means duplicates
//	GET /payments?created_from=T&created_to=T&cursor=C&limit=N
//	                                       200 {"data":[…],"next":"cursor or empty"}, oldest first,
//	                                       created_from inclusive, created_to exclusive, limit ≤ 200
//
//	GET /refunds/{id}, GET /refunds?…      the same questions about refunds; a provider without
//	                                       refunds answers 404 or 405
//
// The filtered lists answer in one page. An answer names its reference and, at a
// provider with keys, its idempotency_key; one that names another payment than the one
// asked about is not believed.
//
// A provider may do without keys (it ignores Idempotency-Key) or without any way
// of asking (405 on every GET /payments and /refunds); the adapter's configuration says so.
//
// # Being there
//
//	GET /health                            200 with JSON such as {"status":"ok"} while charges are
//	                                       taken, 503 while they are not
//
// It reads no payment, so it costs next to nothing, and stands apart from the questions
// above: it works at a provider without them, and does not fail when they do. One such
// read precedes a charge that probes a half-open circuit. A provider without it (404)
// is probed by the charge alone.
//
// # Events
//
// POST to the URL registered with the provider, body
//
//	{"id":"evt_…","type":"payment.succeeded","created_at":"RFC 3339","live":false,
//	 "data":{the payment object}}
//
// Types: payment.succeeded, payment.failed, payment.processing, payment.requires_action,
// payment.authorised; charge.refunded, with the payment and its new totals; refund.updated, with the refund in
// whatever status, also one made in the provider's dashboard, which has no reference; and
// dispute.opened, dispute.won, dispute.lost (either of the last may follow the other) with
//
//	{"id":"dsp_…","payment_id":"pay_…","payment_reference":"…","status":"opened","amount":4900,
//	 "currency":"EUR","reason":"fraudulent","due_by":"RFC 3339","created_at":"RFC 3339"}
//
// Other types are signed but uninteresting. Header
//
//	Fusebox-Signature: t=UNIX,v1=HEX[,v1=HEX…]
//
// where HEX is HMAC-SHA256 of "UNIX.body" under the secret, lower or upper case.
// At most 16 v1 entries are looked at. Tolerance 300 s both ways, inclusive.
// Deliveries come at least once, in any order, until a 2xx answer.
package gateway
