package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"fusebox/store"
)

// commandLine is the actor of changes made in a shell.
var commandLine = store.Actor{Kind: "system", ID: "cli", Name: "command line"}

// userVerbs are what "fusebox user" does.
const userVerbs = "add, passwd, role, disable, enable, sign-out, reset-factor or list"

// userChanges are the verbs that change a person who is there, and what they say after.
var userChanges = map[string]struct {
	change store.UserChange
	done   string
}{
	"role":         {store.ChangeRole, "has another role"},
	"disable":      {store.ChangeDisable, "may not sign in any more"},
	"enable":       {store.ChangeEnable, "may sign in again"},
	"sign-out":     {store.ChangeSignOut, "is signed out everywhere"},
	"reset-factor": {store.ChangeResetFactor, "signs in without a second factor until they set one up"},
}

// userArgs are the arguments of "fusebox user".
type userArgs struct {
	verb, email, name, role, reason string
	stdin                           bool
}

// parseUser reads the arguments. The address may also stand without its flag, before or
// after the others.
func parseUser(args []string) (userArgs, error) {
	if len(args) == 0 {
		return userArgs{}, errors.New("user: say " + userVerbs)
	}
	a := userArgs{verb: args[0]}
	fs := newFlags("user "+a.verb, "[EMAIL]")
	fs.StringVar(&a.email, "email", "", "email address; or say it without the flag")
	switch a.verb {
	case "add":
		fs.StringVar(&a.name, "name", "", "name shown to others (default: from the email)")
		fs.StringVar(&a.role, "role", "support", "support, operator or admin")
	case "role":
		fs.StringVar(&a.role, "role", "", "support, operator or admin")
	}
	if _, ok := userChanges[a.verb]; ok {
		fs.StringVar(&a.reason, "reason", "", "why, for the audit log")
	}
	if a.verb == "add" || a.verb == "passwd" {
		fs.BoolVar(&a.stdin, "password-stdin", false, "read the password from standard input instead of making one")
	}
	rest := args[1:]
	for {
		if err := fs.Parse(rest); err != nil {
			return userArgs{}, err
		}
		if rest = fs.Args(); len(rest) == 0 {
			return a, nil
		}
		if a.email != "" {
			return userArgs{}, fmt.Errorf("user %s: %q is one address too many", a.verb, rest[0])
		}
		a.email, rest = rest[0], rest[1:]
	}
}

func userCommand(ctx context.Context, args []string, out io.Writer) error {
	a, err := parseUser(args)
	if err != nil {
		return err
	}
	change, known := userChanges[a.verb]
	if !known && !slices.Contains([]string{"add", "passwd", "list"}, a.verb) {
		return fmt.Errorf("user: %q is not %s", a.verb, userVerbs)
	}
	return withStore(ctx, "user", func(s *store.Store) error {
		switch a.verb {
		case "add":
			return addUser(ctx, s, out, a.stdin, store.NewUser{Email: a.email, Name: a.name, Role: store.Role(a.role)})
		case "passwd":
			return setPassword(ctx, s, out, a.stdin, a.email)
		case "list":
			return listUsers(ctx, s, out)
		}
		e := store.UserEdit{Change: change.change, Role: store.Role(a.role), Reason: a.reason}
		switch err := s.EditUserByEmail(ctx, a.email, e, commandLine); {
		case errors.Is(err, store.ErrNotFound):
			return fmt.Errorf("user: %q is nobody's address", a.email)
		case errors.Is(err, store.ErrLastAdmin):
			return fmt.Errorf("user: %s is the last admin, and somebody has to manage people; make another one first", a.email)
		case err != nil:
			return err
		}
		fmt.Fprintf(out, "%s %s; their sessions are over\n", a.email, change.done)
		return nil
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
	err = s.SetPassword(ctx, email, password, commandLine)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("user: %q is nobody's address", email)
	}
	if err != nil {
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
	fmt.Fprintln(w, "EMAIL\tNAME\tROLE\tSTATE\tSECOND FACTOR\tLAST SEEN")
	for _, u := range users {
		state, factor, seen := "active", "no", "never"
		if u.Disabled {
			state = "disabled"
		}
		if u.HasFactor {
			factor = "yes"
		}
		if u.LastSeenAt != nil {
			seen = u.LastSeenAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", u.Email, u.Name, u.Role, state, factor, seen)
	}
	return w.Flush()
}
