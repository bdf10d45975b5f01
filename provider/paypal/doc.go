// Package paypal is the adapter for PayPal's Orders API, version 2: one order per
// payment, charged in the request that creates it to a payment method the payer has
// stored in PayPal's vault, with nobody there.
//
// # A charge
//
// POST /v2/checkout/orders with intent CAPTURE and a vault id as payment source, our
// payment id in custom_id and invoice_id, the operation's key in PayPal-Request-Id, and
// Prefer: return=representation. Such an order is captured as it is created. PayPal keeps
// a key for 6 hours and answers it with the latest state of the first order, whatever
// else the request says: an order with another custom_id is unknown with review. What is
// refused for its invoice_id exists already.
//
//	capture COMPLETED, PARTIALLY_REFUNDED, REFUNDED  succeeded
//	capture PENDING                                  processing
//	capture DECLINED, FAILED                         failed
//	no capture: APPROVED, SAVED                      processing
//	            CREATED, PAYER_ACTION_REQUIRED       requires_action
//	            VOIDED                               failed
//	anything else                                    unknown, review
//
// Amounts are decimal text; JPY, HUF and TWD without decimals. Currencies PayPal does not
// hold are refused before anything is sent.
//
// # The token
//
// Every request carries an OAuth token, fetched with the client id and secret, shared,
// and renewed before it ends, by one request at a time. Without one a charge is provably
// not sent. That says nothing about what takes charges, so it is neutral to the charge
// and status circuits; requests for a token stand before a circuit of their own (class
// token, Options.TokenGuard), which says when to come back. Credentials that are refused
// pause the provider's charges like a 401; that and a throttle say nothing about health,
// and make a pause that doubles up to half a minute.
//
// # Asking
//
// By order id. By our reference only through the transaction search, which lags up to
// three hours and lists executed payments: what it names is read from its capture, and
// its silence is never an absence (Capabilities.NeverAbsent). Within the key's life the
// same key and bytes bring the order back (replay_key). There is no list for a sync, for
// the same reason.
//
// # A refund
//
// POST /v2/payments/captures/{id}/refund with our operation id in custom_id and the
// payment's in invoice_id. The capture's id is read from the order first, which moves
// nothing; without it nothing is sent. An order lists its refunds, so looking one up reads
// the order. A refund's event names no order: it finds its payment by the invoice id.
//
// # Capture by hand
//
// With intent AUTHORIZE the order holds the money: its authorisation CREATED is processing
// (authorised), VOIDED is failed, and voided or lapsed by whether its time was over. POST
// /v2/payments/authorizations/{id}/capture takes the money or a part, once
// (final_capture), POST …/void lets it go; the authorisation's id is read from the order
// first. Neither has a place for our reference (a capture's invoice id is what refunds and
// disputes of it find their payment by), so both are looked up in the order: while that
// holds its money there was none. A capture has an id of its own, which the answer to it
// tells and the engine keeps: by it a capture that was pending and is declined or denied
// later fails, from its event or from GET /v2/payments/captures/{id}, and what is held stays
// held.
//
// # Webhooks
//
// Charges (PAYMENT.CAPTURE.*, PAYMENT.AUTHORIZATION.*, CHECKOUT.ORDER.*), refunds, and
// disputes (CUSTOMER.DISPUTE.*), which find their payment by the invoice number.
//
// PAYPAL-TRANSMISSION-SIG over transmission id, time, webhook id and the CRC-32 of the
// raw body, made with a certificate that is fetched from PayPal's own hosts only, chained
// to a root of this machine, held by PayPal's name for it, and cached. While it cannot be
// fetched a delivery is neither accepted nor called false. The event's WH-… id is its key.
//
// # Settings beyond the common ones
//
// api_key is "client_id:secret" of the REST app. webhook_secrets are the ids of its
// webhooks, which take part in the signature, newest first; written api:ID, deliveries
// are verified by PayPal's verify-webhook-signature call instead of the certificate.
// key_life must not be longer than 6 hours.
package paypal
