package store

// SearchPlans are the statements of a search.
func SearchPlans() map[string]string {
	return map[string]string{"payments": searchPaymentsSQL, "webhooks": searchWebhooksSQL}
}
