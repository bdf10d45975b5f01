package store

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Wallet holds money of one owner in one currency; amounts in minor units.
type Wallet struct {
	ID        uuid.UUID
	OwnerRef  string
	Currency  string
	Balance   int64
	Held      int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// WalletEntry is one movement.
type WalletEntry struct {
	ID           int64
	WalletID     uuid.UUID
	OperationID  string
	Amount       int64 // signed
	BalanceAfter int64
	Kind         string // credit, debit, topup, refund
	PaymentID    *uuid.UUID
	Note         string
	Actor        string
	CreatedAt    time.Time
}

const (
	walletColumns = `id, owner_ref, currency, balance, held, created_at, updated_at`
	// paymentOperations prefixes the operation ids of payments' own effects; nobody else
	// may use it.
	paymentOperations = "payment:"
	refundOperations  = "refund:" // and this the refunds' effects
)

func readWallet(row pgx.Row) (w Wallet, err error) {
	err = row.Scan(&w.ID, &w.OwnerRef, &w.Currency, &w.Balance, &w.Held, &w.CreatedAt, &w.UpdatedAt)
	return w, err
}

func readEntry(row pgx.Row) (e WalletEntry, err error) {
	err = row.Scan(&e.ID, &e.WalletID, &e.OperationID, &e.Amount, &e.BalanceAfter, &e.Kind, &e.PaymentID, &e.Note, &e.Actor, &e.CreatedAt)
	return e, err
}

// CreateWallet returns the owner's wallet, new or existing; ErrWalletCurrency if it exists
// in another currency. created tells which.
func (s *Store) CreateWallet(ctx context.Context, ownerRef, currency string, by Actor) (w Wallet, created bool, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Wallet{}, false, err
	}
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		created = false
		tag, err := tx.Exec(ctx, `INSERT INTO wallets (id, owner_ref, currency, created_at, updated_at)
			VALUES ($1, $2, $3, $4, $4) ON CONFLICT (owner_ref) DO NOTHING`, id, ownerRef, currency, s.Now())
		if err != nil {
			return wrap(err, "create wallet")
		}
		w, err = readWallet(tx.QueryRow(ctx, `SELECT `+walletColumns+` FROM wallets WHERE owner_ref = $1`, ownerRef))
		if err != nil {
			return wrap(err, "read wallet")
		}
		if w.Currency != currency {
			return ErrWalletCurrency
		}
		if created = tag.RowsAffected() == 1; !created {
			return nil
		}
		if err := s.Audit(ctx, tx, by, "wallet.create", "wallet:"+w.ID.String(), "", nil, map[string]any{"owner_ref": ownerRef, "currency": currency}); err != nil {
			return err
		}
		return Notify(ctx, tx, TopicWallets)
	})
	if err != nil {
		return Wallet{}, false, err
	}
	return w, created, nil
}

// Wallet reads one. ErrWalletNotFound.
func (s *Store) Wallet(ctx context.Context, id uuid.UUID) (Wallet, error) {
	w, err := readWallet(s.pool.QueryRow(ctx, `SELECT `+walletColumns+` FROM wallets WHERE id = $1`, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return Wallet{}, ErrWalletNotFound
	}
	return w, wrap(err, "read wallet")
}

// Move credits (amount > 0) or debits (amount < 0) a wallet once per operation id. A repeat
// returns the first entry with replayed true. Errors: ErrWalletNotFound, ErrInsufficient,
// ErrOperationReused (also for ids reserved for payments and refunds), ErrWalletFull.
func (s *Store) Move(ctx context.Context, walletID uuid.UUID, operationID string, amount int64, note string, by Actor) (e WalletEntry, replayed bool, err error) {
	if strings.HasPrefix(operationID, paymentOperations) || strings.HasPrefix(operationID, refundOperations) {
		return WalletEntry{}, false, ErrOperationReused
	}
	kind := "credit"
	if amount < 0 {
		kind = "debit"
	}
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		e, replayed, err = s.move(ctx, tx, WalletEntry{WalletID: walletID, OperationID: operationID, Amount: amount, Kind: kind, Note: note}, by)
		return err
	})
	if err != nil {
		return WalletEntry{}, false, err
	}
	return e, replayed, nil
}

// topUp credits the wallet of a succeeded payment, once: the entry is keyed by the
// payment's own operation.
func (s *Store) topUp(ctx context.Context, tx pgx.Tx, p Payment, by Actor) error {
	if p.WalletID == nil {
		return nil
	}
	_, _, err := s.move(ctx, tx, WalletEntry{WalletID: *p.WalletID, OperationID: topUpOperation(p.ID), Amount: p.Took().Amount,
		Kind: "topup", PaymentID: &p.ID, Note: p.OrderRef}, by)
	return err
}

func topUpOperation(paymentID uuid.UUID) string {
	return paymentOperations + paymentID.String() + ":topup"
}

// move is one movement under the wallet's row lock, the last lock of every change. The
// entry's balance and the wallet's are read after the lock.
func (s *Store) move(ctx context.Context, tx pgx.Tx, e WalletEntry, by Actor) (entry WalletEntry, replayed bool, err error) {
	w, err := readWallet(tx.QueryRow(ctx, `SELECT `+walletColumns+` FROM wallets WHERE id = $1 FOR UPDATE`, e.WalletID))
	if errors.Is(err, pgx.ErrNoRows) {
		return WalletEntry{}, false, ErrWalletNotFound
	}
	if err != nil {
		return WalletEntry{}, false, wrap(err, "lock wallet")
	}
	if entry, err = repeated(ctx, tx, e); !errors.Is(err, pgx.ErrNoRows) {
		return entry, err == nil, err
	}
	switch {
	case e.Amount > 0 && w.Balance > math.MaxInt64-e.Amount:
		return WalletEntry{}, false, ErrWalletFull
	case e.Amount < 0 && w.Balance-w.Held < -e.Amount, e.Amount == math.MinInt64:
		return WalletEntry{}, false, ErrInsufficient
	}
	return s.book(ctx, tx, w, e, by)
}

// repeated finds the entry of an operation already done. pgx.ErrNoRows: there is none.
func repeated(ctx context.Context, tx pgx.Tx, e WalletEntry) (WalletEntry, error) {
	first, err := readEntry(tx.QueryRow(ctx, `SELECT `+entryColumns+` FROM wallet_entries WHERE operation_id = $1`, e.OperationID))
	if err != nil {
		return WalletEntry{}, err
	}
	if first.WalletID != e.WalletID || first.Amount != e.Amount {
		return WalletEntry{}, ErrOperationReused
	}
	return first, nil
}

// book writes entry and balance together.
func (s *Store) book(ctx context.Context, tx pgx.Tx, w Wallet, e WalletEntry, by Actor) (WalletEntry, bool, error) {
	now := s.Now()
	entry, err := readEntry(tx.QueryRow(ctx, `
		INSERT INTO wallet_entries (wallet_id, operation_id, amount, balance_after, kind, payment_id, note, actor, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (operation_id) DO NOTHING RETURNING `+entryColumns,
		w.ID, e.OperationID, e.Amount, w.Balance+e.Amount, e.Kind, e.PaymentID, clean(e.Note), by.String(), now))
	if errors.Is(err, pgx.ErrNoRows) {
		return WalletEntry{}, false, ErrOperationReused // the same id, just used on another wallet
	}
	if err != nil {
		return WalletEntry{}, false, wrap(err, "book entry")
	}
	if _, err := tx.Exec(ctx, `UPDATE wallets SET balance = balance + $2, updated_at = $3 WHERE id = $1`, w.ID, e.Amount, now); err != nil {
		return WalletEntry{}, false, wrap(err, "move balance")
	}
	return entry, false, Notify(ctx, tx, TopicWallets)
}

// WalletEntries lists a wallet's entries, newest first, before the given id (0: from the top).
func (s *Store) WalletEntries(ctx context.Context, walletID uuid.UUID, before int64, limit int) ([]WalletEntry, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	rows, err := s.pool.Query(ctx, `SELECT `+entryColumns+` FROM wallet_entries
		WHERE wallet_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3`, walletID, before, limit)
	if err != nil {
		return nil, wrap(err, "list wallet entries")
	}
	list, err := pgx.CollectRows(rows, scanEntry)
	return list, wrap(err, "list wallet entries")
}
