package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"fusebox/store"
)

// commandLine is the actor of changes made in a shell.
var commandLine = store.Actor{Kind: "system", ID: "cli", Name: "command line"}

func userCommand(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("user: say add, passwd or list")
	}
	fs := newFlags("user "+args[0], "")
	email := fs.String("email", "", "email address")
	name := fs.String("name", "", "name shown to others (default: from the email)")
	role := fs.String("role", "support", "support, operator or admin")
	stdin := fs.Bool("password-stdin", false, "read the password from standard input instead of making one")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	return withStore(ctx, "user", func(s *store.Store) error {
		switch args[0] {
		case "add":
			return addUser(ctx, s, out, *stdin, store.NewUser{Email: *email, Name: *name, Role: store.Role(*role)})
		case "passwd":
			return setPassword(ctx, s, out, *stdin, *email)
		case "list":
			return listUsers(ctx, s, out)
		default:
			return fmt.Errorf("user: %q is not add, passwd or list", args[0])
		}
	})
}

// withStore runs fn on the configured books.
func withStore(ctx context.Context, name string, fn func(*store.Store) error) error {
	cfg, err := loadConfig(os.Environ())
	if err != nil {
		return err
	}
	a, err := buildReader(ctx, cfg, name)
	if err != nil {
		return err
	}
	defer a.close()
	return fn(a.store)
}

func addUser(ctx context.Context, s *store.Store, out io.Writer, stdin bool, n store.NewUser) error {
	password, shown, err := newPassword(stdin)
	if err != nil {
		return err
	}
	n.Password = password
	u, err := s.CreateUser(ctx, n, commandLine)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s may sign in as %s%s\n", u.Email, u.Role, shown)
	return nil
}

func setPassword(ctx context.Context, s *store.Store, out io.Writer, stdin bool, email string) error {
	password, shown, err := newPassword(stdin)
	if err != nil {
		return err
	}
	if err := s.SetPassword(ctx, email, password, commandLine); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s has a new password%s\n", email, shown)
	return nil
}

// newPassword reads a password or makes one; shown is what to print of it.
func newPassword(stdin bool) (password, shown string, err error) {
	if !stdin {
		password = randomSecret()
		return password, ", password " + password + " (shown once)", nil
	}
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", "", fmt.Errorf("reading the password: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), "", nil
}

// randomSecret has 130 bits, in letters and digits that are easy to type.
func randomSecret() string { return strings.ToLower(rand.Text()) }

func listUsers(ctx context.Context, s *store.Store, out io.Writer) error {
	users, err := s.ListUsers(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "EMAIL\tNAME\tROLE\tSTATE\tLAST SEEN")
	for _, u := range users {
		state, seen := "active", "never"
		if u.Disabled {
			state = "disabled"
		}
		if u.LastSeenAt != nil {
			seen = u.LastSeenAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", u.Email, u.Name, u.Role, state, seen)
	}
	return w.Flush()
}
