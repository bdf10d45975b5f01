package web

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// walletsPage answers the wallets, whole or their live part.
func (s *Server) walletsPage(c echo.Context) error {
	owner, after := strings.TrimSpace(c.QueryParam("owner")), c.QueryParam("after")
	if tooLong(owner) || tooLong(after) {
		return invalid("owner", "is longer than 200 characters")
	}
	c.Response().Header().Add(echo.HeaderVary, "HX-Request")
	build := func(ctx context.Context, rev string) (views.WalletListView, error) {
		return s.walletList(ctx, owner, after, region(c, "wallet-list", store.TopicWallets, rev))
	}
	if isHTMX(c) {
		return s.fragment(c, store.TopicWallets, func(ctx context.Context, rev string) (templ.Component, error) {
			v, err := build(ctx, rev)
			return views.WalletList(v), err
		})
	}
	ctx := s.viewContext(c)
	list, err := build(ctx, s.a.hub.rev(store.TopicWallets))
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, views.Wallets(views.WalletsView{
		Page: s.page(c, "wallets", views.T(ctx, "wallets.title")), Owner: owner, List: list}))
}

func (s *Server) walletList(ctx context.Context, owner, after string, live components.LiveRegion) (views.WalletListView, error) {
	wallets, more, err := s.cfg.Store.ListWallets(ctx, owner, after, rowsPerPage)
	if err != nil {
		return views.WalletListView{}, err
	}
	v := views.WalletListView{Live: live, Filtered: owner != ""}
	for _, w := range wallets {
		v.Rows = append(v.Rows, walletRow(w))
	}
	values := with(nil, "owner", owner)
	if more {
		v.Pages.Older = address(views.PathWallets, with(values, "after", wallets[len(wallets)-1].OwnerRef))
	}
	if after != "" {
		v.Pages.Newer = address(views.PathWallets, values)
	}
	return v, nil
}

func walletRow(w store.Wallet) views.WalletRow {
	return views.WalletRow{ID: w.ID.String(), Owner: w.OwnerRef, Currency: w.Currency, Balance: w.Balance, Held: w.Held,
		Available: w.Balance - w.Held, UpdatedAt: w.UpdatedAt}
}

// walletPage answers one wallet with its entries and the proof of its balance.
func (s *Server) walletPage(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	before, err := pageNumber(c.QueryParam("before"))
	if err != nil {
		return invalid("before", "is not a page")
	}
	w, err := s.cfg.Store.Wallet(c.Request().Context(), id)
	if err != nil {
		return err
	}
	title := views.T(s.viewContext(c), "wallet.title", "Owner", w.OwnerRef)
	return s.livePage(c, "wallets", title, store.TopicWallets, func(ctx context.Context, rev string) (templ.Component, error) {
		v, err := s.walletView(ctx, id, before)
		v.Live = region(c, "wallet", store.TopicWallets, rev)
		return views.Wallet(v), err
	})
}

func (s *Server) walletView(ctx context.Context, id uuid.UUID, before int64) (views.WalletView, error) {
	// The proof first: entries that arrive in between only add to what is shown below it.
	sum, err := s.cfg.Store.CheckWallet(ctx, id)
	if err != nil {
		return views.WalletView{}, err
	}
	w, err := s.cfg.Store.Wallet(ctx, id)
	if err != nil {
		return views.WalletView{}, err
	}
	entries, err := s.cfg.Store.WalletEntries(ctx, id, before, rowsPerPage+1)
	if err != nil {
		return views.WalletView{}, err
	}
	v := views.WalletView{Wallet: walletRow(w), Sum: sum.Sum, Entries: sum.Entries, Broken: sum.Broken, CheckedAt: s.cfg.Now(),
		Before: sum.Before, Kept: sum.CheckedAt, Partial: sum.Partial, Export: templ.SafeURL(views.WalletPath(id.String()) + "/entries.csv")}
	v.Wallet.Balance, v.Wallet.Available = sum.Balance, sum.Balance-w.Held
	path := views.WalletPath(id.String())
	if len(entries) > rowsPerPage {
		entries = entries[:rowsPerPage]
		v.Pages.Older = address(path, with(nil, "before", strconv.FormatInt(entries[rowsPerPage-1].ID, 10)))
	}
	if before > 0 {
		v.Pages.Newer = address(path, nil)
	}
	v.Rows, err = s.entryRows(ctx, entries)
	return v, err
}

func (s *Server) entryRows(ctx context.Context, entries []store.WalletEntry) ([]views.WalletEntryRow, error) {
	actors := make([]string, 0, len(entries))
	for _, e := range entries {
		actors = append(actors, e.Actor)
	}
	names, err := s.cfg.Store.ActorNames(ctx, actors)
	if err != nil {
		return nil, err
	}
	rows := make([]views.WalletEntryRow, 0, len(entries))
	for _, e := range entries {
		row := views.WalletEntryRow{ID: e.ID, Kind: e.Kind, OperationID: e.OperationID, Note: e.Note, Amount: e.Amount,
			Balance: e.BalanceAfter, At: e.CreatedAt, Who: names[e.Actor]}
		if e.PaymentID != nil {
			row.PaymentID = e.PaymentID.String()
		}
		rows = append(rows, row)
	}
	return rows, nil
}
