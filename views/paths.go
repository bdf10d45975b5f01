package views

import (
	"net/url"
	"strconv"

	"github.com/a-h/templ"
)

// Paths of the console's working pages, as the navigation links to them.
const (
	PathPayments       = "/payments"
	PathQueue          = "/queue"
	PathQueues         = "/queues"
	PathWebhooks       = "/webhook-log"
	PathObjects        = "/objects"
	PathReconciliation = "/reconciliation"
	PathWallets        = "/wallets"
	PathAudit          = "/audit"
	PathSearch         = "/search"
	PathCheckout       = "/checkout"
	PathFaults         = "/demo/faults"
	PathJobPages       = "/river"
)

// PaymentPath is one payment's page.
func PaymentPath(id string) string { return PathPayments + "/" + url.PathEscape(id) }

// AnswerPath is one payment in the work queue, with what is known about it side by side.
func AnswerPath(id string) string { return PathQueue + "/" + url.PathEscape(id) }

// WebhookPath is one inbox row's page.
func WebhookPath(id int64) string { return PathWebhooks + "/" + strconv.FormatInt(id, 10) }

// RunPath is one reconciliation run's page.
func RunPath(id string) string { return PathReconciliation + "/" + url.PathEscape(id) }

// ObjectPath is the page of what a provider has and no payment here names. The id is the
// provider's and can hold anything, so it stands in the query.
func ObjectPath(provider, id string) string {
	return PathObjects + "/" + url.PathEscape(provider) + "?" + url.Values{"id": {id}}.Encode()
}

// WalletPath is one wallet's page.
func WalletPath(id string) string { return PathWallets + "/" + url.PathEscape(id) }

// safe marks a path of our own making as a link.
func safe(path string) templ.SafeURL { return templ.SafeURL(path) }
