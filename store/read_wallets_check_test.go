package store

import "context"

// CheckWalletInSteps is CheckWallet with its limits made small, for tests.
func (s *Store) CheckWalletInSteps(ctx context.Context, id [16]byte, step, keep int64) (WalletSum, error) {
	return s.checkWallet(ctx, id, step, keep)
}
