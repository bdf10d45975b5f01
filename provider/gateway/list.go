package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"fusebox/provider"
)

// Page sizes of List.
const (
	defaultPage = 100
	maxPage     = 200
)

var errNoData = errors.New(`no "data" list`)

// Lists a List goes through, one after the other: they begin the cursor of a page.
const (
	listPayments = "payments"
	listRefunds  = "refunds"
)

// List implements provider.Adapter: the charges, then the refunds.
func (a *Adapter) List(ctx context.Context, q provider.ListQuery) (provider.Page, error) {
	list := listPayments
	switch name, cursor, ok := strings.Cut(q.Cursor, ":"); {
	case ok && name == listRefunds:
		list, q.Cursor = listRefunds, cursor
	case ok && name == listPayments:
		q.Cursor = cursor
	}
	page, err := a.listOf(ctx, list, q)
	switch {
	case err != nil:
	case page.Next != "":
		page.Next = list + ":" + page.Next
	case list == listPayments:
		page.Next = listRefunds + ":"
	}
	return page, err
}

// listOf returns one page of one list.
func (a *Adapter) listOf(ctx context.Context, list string, q provider.ListQuery) (provider.Page, error) {
	call := provider.Call{Method: http.MethodGet, Path: list, Query: listQuery(q), Header: a.headers()}
	ex, _ := a.caller.Ask(ctx, call)
	var ans provider.LookupAnswer
	var next string
	if ex.Status == http.StatusOK && ex.Err == nil {
		ans, next = readPage(ex.Body, map[string]reader{listPayments: readPayment, listRefunds: readRefund}[list])
	}
	reading := provider.ClassifyLookup(ex, ans, true)
	page := provider.Page{Objects: ans.Objects, Next: next, Health: reading.Health}
	switch {
	case list == listRefunds && ex.Err == nil && (ex.Status == http.StatusNotFound || ex.Status == http.StatusMethodNotAllowed):
		return provider.Page{Health: provider.HealthOK}, nil // a provider without refunds: its list ends with the charges
	case ex.Status != http.StatusOK || reading.Verdict == provider.LookupNoAnswer:
		return provider.Page{Health: reading.Health}, listError(a.Name(), reading.Reason, ex.Err, ans.DecodeErr)
	case next != "" && next == q.Cursor:
		return provider.Page{Health: provider.HealthNeutral}, listError(a.Name(), "the cursor does not move", nil, nil)
	}
	return page, nil
}

func listError(name, reason string, causes ...error) error {
	if err := errors.Join(causes...); err != nil {
		return fmt.Errorf("%s: list: %s: %w", name, reason, err)
	}
	return fmt.Errorf("%s: list: %s", name, reason)
}

func listQuery(q provider.ListQuery) url.Values {
	limit := q.Limit
	if limit <= 0 {
		limit = defaultPage
	}
	v := url.Values{"limit": {strconv.Itoa(min(limit, maxPage))}}
	if !q.From.IsZero() {
		v.Set("created_from", q.From.UTC().Format(time.RFC3339Nano))
	}
	if !q.To.IsZero() {
		v.Set("created_to", q.To.UTC().Format(time.RFC3339Nano))
	}
	if q.Cursor != "" {
		v.Set("cursor", q.Cursor)
	}
	return v
}

// reader decodes one object.
type reader func(raw []byte) (provider.Object, error)

// readPage reads a page. One object we cannot decode must not stop a sync for good: it
// is listed by its id, without a meaning.
func readPage(body []byte, read reader) (provider.LookupAnswer, string) {
	if !json.Valid(body) {
		return provider.LookupAnswer{Malformed: true}, ""
	}
	raws, next, err := decodeList(body)
	if err != nil {
		return provider.LookupAnswer{DecodeErr: err}, ""
	}
	var ans provider.LookupAnswer
	for _, raw := range raws {
		o, err := pageObject(raw, read)
		if err != nil {
			return provider.LookupAnswer{DecodeErr: err}, ""
		}
		ans.Objects = append(ans.Objects, o)
	}
	return ans, next
}

func pageObject(raw json.RawMessage, read reader) (provider.Object, error) {
	o, err := read(raw)
	if err == nil && o.ID != "" {
		return o, nil
	}
	known := hint(raw)
	if known == nil {
		return provider.Object{}, fmt.Errorf("an object without an id: %w", errors.Join(err, errID))
	}
	known.Kind, known.Raw = o.Kind, provider.RedactRaw(raw)
	return *known, nil
}

// decodeList reads {"data": […], "next": "…"}; data has to be there, if only empty.
func decodeList(body []byte) (data []json.RawMessage, next string, err error) {
	var shell struct {
		Data *[]json.RawMessage `json:"data"`
		Next string             `json:"next"`
	}
	if err := json.Unmarshal(body, &shell); err != nil {
		return nil, "", err
	}
	if shell.Data == nil {
		return nil, "", errNoData
	}
	return *shell.Data, shell.Next, nil
}
