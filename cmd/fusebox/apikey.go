package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"fusebox/store"
)

func apiKeyCommand(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("apikey: say add, list or revoke")
	}
	fs := newFlags("apikey "+args[0], "")
	name := fs.String("name", "", "add: what the key is for")
	scopes := fs.String("scope", string(store.ScopePayments), "add: what the key may be used for: payments, refunds, circuits; several with commas")
	id := fs.String("id", "", "revoke: the key's id, from list")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	return withStore(ctx, "apikey", func(s *store.Store) error {
		switch args[0] {
		case "add":
			k, secret, err := s.CreateAPIKey(ctx, *name, commandLine, scopesOf(*scopes)...)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%s\n(%s, id %s, for %s; shown once)\n", secret, k.Name, k.ID, scopeNames(k.Scopes))
			return nil
		case "list":
			return listAPIKeys(ctx, s, out)
		case "revoke":
			key, err := uuid.Parse(*id)
			if err != nil {
				return fmt.Errorf("--id: %q is not an id", *id)
			}
			if err := s.RevokeAPIKey(ctx, key, commandLine); err != nil {
				return err
			}
			fmt.Fprintf(out, "%s is revoked: refused from the next request on\n", key)
			return nil
		default:
			return fmt.Errorf("apikey: %q is not add, list or revoke", args[0])
		}
	})
}

// scopesOf reads the flag; the store says what is no scope.
func scopesOf(list string) []store.Scope {
	var out []store.Scope
	for name := range strings.SplitSeq(list, ",") {
		out = append(out, store.Scope(strings.TrimSpace(name)))
	}
	return out
}

func scopeNames(scopes []store.Scope) string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	return strings.Join(names, ",")
}

func listAPIKeys(ctx context.Context, s *store.Store, out io.Writer) error {
	keys, err := s.ListAPIKeys(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tPREFIX\tSCOPES\tCREATED\tLAST USED\tSTATE")
	for _, k := range keys {
		state, used := "active", "never"
		if k.LastUsedAt != nil {
			used = k.LastUsedAt.UTC().Format(time.RFC3339)
		}
		if k.RevokedAt != nil {
			state = "revoked " + k.RevokedAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Name, k.Prefix, scopeNames(k.Scopes), k.CreatedAt.UTC().Format(time.RFC3339), used, state)
	}
	return w.Flush()
}
