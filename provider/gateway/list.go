package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"fusebox/provider"
)

// Page sizes of List.
const (
	defaultPage = 100
	maxPage     = 200
)

var errNoData = errors.New(`no "data" list`)

// List implements provider.Adapter.
func (a *Adapter) List(ctx context.Context, q provider.ListQuery) (provider.Page, error) {
	call := provider.Call{Method: http.MethodGet, Path: "payments", Query: listQuery(q), Header: a.headers()}
	ex, _ := a.caller.Ask(ctx, call)
	var ans provider.LookupAnswer
	var next string
	if ex.Status == http.StatusOK && ex.Err == nil {
		ans, next = readPage(ex.Body)
	}
	reading := provider.ClassifyLookup(ex, ans, true)
	page := provider.Page{Objects: ans.Objects, Next: next, Health: reading.Health}
	switch {
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

// readPage reads a page. One payment we cannot decode must not stop a sync for good: it
// is listed by its id, without a meaning.
func readPage(body []byte) (provider.LookupAnswer, string) {
	if !json.Valid(body) {
		return provider.LookupAnswer{Malformed: true}, ""
	}
	raws, next, err := decodeList(body)
	if err != nil {
		return provider.LookupAnswer{DecodeErr: err}, ""
	}
	var ans provider.LookupAnswer
	for _, raw := range raws {
		o, err := pageObject(raw)
		if err != nil {
			return provider.LookupAnswer{DecodeErr: err}, ""
		}
		ans.Objects = append(ans.Objects, o)
	}
	return ans, next
}

func pageObject(raw json.RawMessage) (provider.Object, error) {
	p, err := decodePayment(raw)
	if err == nil && p.ID != "" {
		return p.object(raw), nil
	}
	o := hint(raw)
	if o == nil {
		return provider.Object{}, fmt.Errorf("a payment without an id: %w", errors.Join(err, errID))
	}
	o.Raw = provider.RedactRaw(raw)
	return *o, nil
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
