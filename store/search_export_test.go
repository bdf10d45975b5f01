package store

// SearchPlans are the statements of a search.
func SearchPlans() map[string]string {
	return map[string]string{"payments": searchPaymentsSQL, "webhooks": searchWebhooksSQL}
}

// ListPlan is the statement of a list's first page, with its arguments.
func ListPlan(f PaymentFilter) (sql string, args []any) { return f.page(Keyset{}) }
