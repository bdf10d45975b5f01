package web

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
)

// walletJSON is a wallet as the API shows it; amounts in minor units.
type walletJSON struct {
	ID        uuid.UUID `json:"id"`
	OwnerRef  string    `json:"owner_ref"`
	Currency  string    `json:"currency"`
	Balance   int64     `json:"balance"`
	Held      int64     `json:"held"`
	Available int64     `json:"available"`
	CreatedAt string    `json:"created_at"`
	UpdatedAt string    `json:"updated_at"`
}

func newWalletJSON(w store.Wallet) walletJSON {
	return walletJSON{w.ID, w.OwnerRef, w.Currency, w.Balance, w.Held, w.Balance - w.Held, apiTime(w.CreatedAt), apiTime(w.UpdatedAt)}
}

// entryJSON is one movement of a wallet; the amount is signed, in minor units.
type entryJSON struct {
	ID           int64      `json:"id"`
	WalletID     uuid.UUID  `json:"wallet_id"`
	OperationID  string     `json:"operation_id"`
	Amount       int64      `json:"amount"`
	BalanceAfter int64      `json:"balance_after"`
	Kind         string     `json:"kind"`
	PaymentID    *uuid.UUID `json:"payment_id"`
	Note         string     `json:"note"`
	CreatedAt    string     `json:"created_at"`
}

func newEntryJSON(e store.WalletEntry) entryJSON {
	return entryJSON{e.ID, e.WalletID, e.OperationID, e.Amount, e.BalanceAfter,
		e.Kind, e.PaymentID, e.Note, apiTime(e.CreatedAt)}
}

// createWallet makes an owner's wallet, or answers with the one there is: an owner
// has one, so a repeat needs no key.
func (s *Server) createWallet(c echo.Context) error {
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	f := newForm(body)
	owner, code := f.text("owner_ref", 1, maxOrderRef), f.text("currency", 1, 3)
	if code != "" && !knownCurrency(code) {
		f.refuse("currency", "is not a known ISO 4217 currency")
	}
	if err := f.finish(); err != nil {
		return err
	}
	w, isNew, err := s.cfg.Store.CreateWallet(c.Request().Context(), owner, code, s.actor(c))
	if err != nil {
		return err
	}
	if !isNew {
		return answer(c, http.StatusOK, newWalletJSON(w))
	}
	return created(c, s.apiURL("/wallets/"+w.ID.String()), newWalletJSON(w))
}

// getWallet answers with one wallet.
func (s *Server) getWallet(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	w, err := s.cfg.Store.Wallet(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return answer(c, http.StatusOK, newWalletJSON(w))
}

// findWallet answers with the wallet of ?owner_ref=, as a list of none or one.
func (s *Server) findWallet(c echo.Context) error {
	q := newQuery(c)
	owner := q.text("owner_ref", maxOrderRef)
	if owner == "" && len(q.errors) == 0 {
		q.refuse("owner_ref", "is required")
	}
	if err := q.finish(); err != nil {
		return err
	}
	list := []walletJSON{}
	w, err := s.cfg.Store.WalletByOwner(c.Request().Context(), owner)
	if err != nil && !errors.Is(err, store.ErrWalletNotFound) {
		return err
	}
	if err == nil {
		list = append(list, newWalletJSON(w))
	}
	return answer(c, http.StatusOK, map[string]any{"data": list})
}

// moveWallet credits (sign +1) or debits (-1) a wallet once per operation id, which
// is the body's operation_id or the Idempotency-Key header.
func (s *Server) moveWallet(sign int64) echo.HandlerFunc {
	return func(c echo.Context) error {
		id, err := pathID(c)
		if err != nil {
			return err
		}
		body, err := readJSON(c)
		if err != nil {
			return err
		}
		f := newForm(body)
		amount, note := f.amount("amount"), f.text("note", 0, maxDescription)
		operation := f.operation(c)
		if err := f.finish(); err != nil {
			return err
		}
		entry, replayed, err := s.cfg.Store.Move(c.Request().Context(), id, operation, sign*amount, note, s.actor(c))
		if err != nil {
			return err
		}
		if replayed {
			c.Response().Header().Set("Idempotent-Replayed", "true")
			return answer(c, http.StatusOK, newEntryJSON(entry))
		}
		return answer(c, http.StatusCreated, newEntryJSON(entry))
	}
}

// operation reads the operation id of a movement.
func (f *form) operation(c echo.Context) string {
	operation := f.text("operation_id", 0, maxKey)
	if operation == "" {
		operation = c.Request().Header.Get("Idempotency-Key")
	}
	switch {
	case operation == "" && !f.refused("operation_id"):
		f.refuse("operation_id", "is required")
	case operation != "" && !printableASCII(operation):
		f.refuse("operation_id", "must be 1 to 255 printable ASCII characters")
	}
	return operation
}

// refused reports whether name was refused already.
func (f *form) refused(name string) bool {
	for _, e := range *f.errors {
		if e.Field == f.obj.path+name {
			return true
		}
	}
	return false
}

// listEntries answers with a wallet's movements, newest first.
func (s *Server) listEntries(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	q := newQuery(c)
	before, limit := q.number("cursor", 1, 1<<62, 0), int(q.number("limit", 1, maxPage, defaultPage))
	if err := q.finish(); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := s.cfg.Store.Wallet(ctx, id); err != nil {
		return err
	}
	entries, err := s.cfg.Store.WalletEntries(ctx, id, before, limit+1)
	if err != nil {
		return err
	}
	var next *string
	if len(entries) > limit {
		entries = entries[:limit]
		cursor := strconv.FormatInt(entries[limit-1].ID, 10)
		next = &cursor
	}
	out := make([]entryJSON, len(entries))
	for i, e := range entries {
		out[i] = newEntryJSON(e)
	}
	return answer(c, http.StatusOK, map[string]any{"data": out, "next_cursor": next})
}
