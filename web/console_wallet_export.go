package web

import (
	"context"
	"encoding/csv"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views/messages"
)

// walletColumns head the CSV of a wallet's entries; data for programs, in English.
var walletColumns = []string{"id", "at_utc", "at_local", "zone", "wallet_id", "owner", "kind", "operation_id", "payment_id",
	"amount_minor", "amount", "balance_after_minor", "balance_after", "currency", "note", "actor"}

// exportWallet streams all entries of a wallet, newest first.
func (s *Server) exportWallet(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	wallet, err := s.cfg.Store.Wallet(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return s.streamCSV(c, "wallet", func(ctx context.Context, w *csv.Writer, flush func() error) error {
		zone := messages.From(ctx).Zone
		if err := w.Write(walletColumns); err != nil {
			return err
		}
		for before := int64(0); ; {
			list, err := s.cfg.Store.WalletEntries(ctx, id, before, exportBatch)
			if err != nil {
				return err
			}
			for _, e := range list {
				if err := w.Write(walletRecord(wallet, e, zone)); err != nil {
					return err
				}
				before = e.ID
			}
			if err := flush(); err != nil || len(list) < exportBatch {
				return err
			}
		}
	})
}

func walletRecord(w store.Wallet, e store.WalletEntry, zone *time.Location) []string {
	payment := ""
	if e.PaymentID != nil {
		payment = e.PaymentID.String()
	}
	row := []string{strconv.FormatInt(e.ID, 10), stamp(&e.CreatedAt, time.UTC), stamp(&e.CreatedAt, zone), zone.String(),
		w.ID.String(), formulaSafe(w.OwnerRef), e.Kind, formulaSafe(e.OperationID), payment,
		strconv.FormatInt(e.Amount, 10), provider.FormatMinor(e.Amount, w.Currency),
		strconv.FormatInt(e.BalanceAfter, 10), provider.FormatMinor(e.BalanceAfter, w.Currency), w.Currency,
		formulaSafe(e.Note), formulaSafe(e.Actor)}
	return row // amounts are our own numbers: a minus in front of them is no formula
}
