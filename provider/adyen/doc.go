// Package adyen is the adapter for Adyen's Checkout API: one payment per payment of
// ours, charged to a token that the customer left before, with nobody there (ContAuth).
//
// # A charge
//
// POST /payments with the merchant account, the customer (shopperReference), the token
// (storedPaymentMethodId), our payment id as reference, and the operation's
// Idempotency-Key. Amounts are in Adyen's own minor units, see currency.go.
//
//	Authorised                                  succeeded
//	Received, Pending                           processing
//	RedirectShopper, IdentifyShopper,
//	ChallengeShopper, PresentToShopper          requires_action
//	Refused, Cancelled, Error                   failed
//	anything else                               unknown, review
//
// Authorised counts as succeeded because the merchant account has to capture by itself;
// what says otherwise later (CAPTURE_FAILED, CANCELLATION) is a contradiction for people.
//
// # Captures by hand
//
// A payment whose money is to be held says additionalData.manualCapture: "true", and its
// reference has the prefix hold-. Adyen repeats the reference in every signed event, so
// that AUTHORISATION of such a payment reads as authorised, and not as paid, without
// anything but the event. Until when money is held Adyen does not say.
//
// POST /payments/{pspReference}/captures takes it, or a part, and lets go of the rest: the
// account must not have multiple partial captures. POST /payments/{pspReference}/cancels
// lets go of all. Both are only ever "received". The events settle them:
//
//	CAPTURE, success                  taken, as much as it says
//	CAPTURE, no success               refused; the money is still held
//	CAPTURE_FAILED                    refused by the scheme, perhaps after a CAPTURE
//	CANCELLATION, TECHNICAL_CANCEL    let go
//	CANCELLATION, no success          refused; the money is still held
//
// A refusal of ours is told by its reference and fails that capture or cancellation alone.
// One after its own success is a contradiction for people.
//
// # Refunds
//
// POST /payments/{pspReference}/refunds, whole or in part. The answer is never more than
// "received"; REFUND, REFUND_FAILED and REFUNDED_REVERSED tell what became of it. A
// refund's reference has the prefix op-, which tells ours from one made elsewhere.
//
// # Learning the truth
//
// Adyen answers no question about a payment. A lost answer is settled by sending the
// same key and bytes again (replay_key), and by events. Keys live for seven days at
// least; key_life must not be longer than that. Error 704 means that the first call is
// still running, and a 4xx with the header transient-error: true means the same for us:
// once more, with this key. A key used with other parameters brings the first payment's
// answer back, which is seen by its reference.
//
// # Webhooks
//
// A standard webhook carries items, each with a signature in its additionalData: the
// HMAC-SHA256 of eight of its fields under a key given as hexadecimal. Nothing else in
// the body is signed, so nothing else is evidence: not the reason, not live, not
// additionalData. Every item has to be signed or all are refused. There is no timestamp
// in the signature, so there is no time to check; an old delivery repeated is the same
// event, and changes nothing.
//
// An event has no id. Its key is eventCode, pspReference and success.
//
// # Settings beyond the common ones
//
// account is the merchant account. It may be followed, after a space, by the returnUrl
// for charges that send the customer somewhere: "ShopECOM https://shop.example/return".
// webhook_secrets are the HMAC keys of the webhook, newest first.
package adyen
