// Package mollie is the adapter for Mollie's Payments API, version 2: one payment per
// payment of ours, charged to a mandate the customer gave before, with nobody there
// ("recurring").
//
// # A charge
//
// POST /v2/payments with sequenceType recurring, the customer (cst_…), optionally the
// mandate (mdt_…), our payment id in metadata.payment_id, and the operation's
// Idempotency-Key. Amounts are decimal text with the currency's own decimals: "49.00"
// EUR, "500" JPY, "18.600" KWD.
//
//	paid                       succeeded
//	pending, authorized        processing
//	open                       requires_action
//	failed, canceled, expired  failed
//	anything else              unknown, review
//
// Mollie remembers a key for one hour; key_life must not be longer. Used again with
// other parameters it answers 400, and that status carries no code to tell it from a
// request it could not read, which a frozen request of ours never is: every 400 is
// unknown with review. 409 means that the first call is still running. What Mollie does
// not like about a request comes as 422 with the field.
//
// # Asking
//
// By id, and by reading the list backwards from now to the time the charge was sent,
// since Mollie can filter by nothing. Absence counts only when that stretch was read
// whole. One lookup reads at most twenty pages of 250; the next one goes on from there, ten
// seconds later, up to 25 times, once it is late enough for an absence to count. The first
// to pass the end of the stretch remembers a payment there, and later ones begin at it
// instead of at the newest: what was made since costs no requests.
//
// # A refund
//
// POST /v2/payments/{id}/refunds with our operation id in metadata.operation_id and a key
// of its own. queued, pending and processing are processing, refunded is succeeded,
// failed and canceled are failed. A payment's refunds are a list of their own, so looking
// one up reads that list, and one that is not in it is not there.
//
// # Captures by hand
//
// With captureMode manual the money is held: the payment is authorized until
// POST /v2/payments/{id}/captures takes it, or a part, with our operation id in
// metadata.operation_id, or POST /v2/payments/{id}/release-authorization lets it go.
//
//	payment authorized            held, until captureBefore
//	paid, amountCaptured          taken, as much as was captured
//	canceled; expired             let go by us; by Mollie
//	capture pending               processing
//	capture succeeded             succeeded, and so is the payment over that amount
//	capture failed                failed, at once or later, by event or when asked; what is
//	                              held stays held
//	release 202                   processing: Mollie passes it on and promises nothing
//
// A payment of which a part was captured may stay authorized; it counts as taken, and
// Mollie lets go of the rest by itself. Asked what became of a capture or release, the
// payment answers, with its captures embedded.
//
// # Chargebacks
//
// A chargeback is a dispute that is opened, and won once it is reversed: Mollie tells
// neither a deadline nor that one is lost. Signed events carry it; after a classic webhook
// it stands in the payment that is fetched, and the latest one is applied.
//
// # Webhooks
//
// The next generation is signed (X-Mollie-Signature, HMAC-SHA256 of the body in
// hexadecimal, two of them while a secret is rotated) and carries a snapshot. The classic
// one is an unsigned form, id=tr_…, and proves nothing: it is a hint, and the payment is
// fetched. Its event key is the id with what was fetched, because one id is announced
// many times.
//
// # Settings beyond the common ones
//
// api_key is a test_… or live_… key of a profile; its mode is part of every match.
// webhook_secrets are the signing secrets, newest first. An entry that is an https URL is
// no secret: it is the address Mollie is told to call for each payment (webhookUrl), for
// accounts that use classic webhooks. One entry of either sort is enough.
package mollie
