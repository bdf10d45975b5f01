package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// ErrLastAdmin: without this person nobody could manage users. Nothing was changed.
var ErrLastAdmin = errors.New("store: this is the last admin")

// UserChange is one thing somebody changes about a person.
type UserChange string

// Changes of a person. Each ends the person's sessions.
const (
	ChangeRole        UserChange = "role"
	ChangeDisable     UserChange = "disable"
	ChangeEnable      UserChange = "enable"
	ChangeSignOut     UserChange = "signout"      // everywhere
	ChangeResetFactor UserChange = "reset-factor" // passkeys, app and recovery codes
	ChangePassword    UserChange = "password"
)

// UserChanges lists what an admin may do to a person.
var UserChanges = []UserChange{ChangeRole, ChangeDisable, ChangeEnable, ChangeSignOut, ChangeResetFactor, ChangePassword}

// userActions are the words of the audit log.
var userActions = map[UserChange]string{ChangeRole: "user.role", ChangeDisable: "user.disable", ChangeEnable: "user.enable",
	ChangeSignOut: "user.sign_out_everywhere", ChangeResetFactor: "user.factor_reset", ChangePassword: "user.passwd"}

// UserEdit is a change of one person, as a form or a command asks for it.
type UserEdit struct {
	Change   UserChange
	Version  int64     // what the person who changes it saw; 0: whatever it is
	ActionID uuid.UUID // one-time id of the form; Nil: none
	Role     Role      // of ChangeRole
	Password string    // of ChangePassword
	Reason   string
	Keep     string // hashed token of the one session that goes on; empty: none
}

// EditUser changes a person, ends their sessions and writes the audit row, all in one
// transaction. first is false when the action id was used before: then nothing changed
// again. Errors: *provider.FieldError, *UserConflictError, ErrLastAdmin, ErrNotFound.
func (s *Store) EditUser(ctx context.Context, id uuid.UUID, e UserEdit, by Actor) (first bool, err error) {
	hash := ""
	switch e.Change {
	case ChangeRole:
		if !e.Role.Valid() {
			return false, &provider.FieldError{Field: "role", Reason: "must be support, operator or admin"}
		}
	case ChangePassword:
		if err := CheckPassword(e.Password); err != nil {
			return false, err
		}
		if hash, err = hashPassword(ctx, e.Password); err != nil {
			return false, err
		}
	}
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if e.ActionID != uuid.Nil {
			first, _, err = s.ClaimAction(ctx, tx, e.ActionID, by, userActions[e.Change], "user:"+id.String(), "done")
			if err != nil || !first {
				return err
			}
		}
		first = true
		return s.editUser(ctx, tx, id, e, hash, by)
	})
	return first, err
}

// editUser is EditUser inside its transaction.
func (s *Store) editUser(ctx context.Context, tx pgx.Tx, id uuid.UUID, e UserEdit, hash string, by Actor) error {
	// All admins are locked in one order: two who disable each other take turns.
	admins, err := tx.Query(ctx, `SELECT id FROM users WHERE role = 'admin' AND NOT disabled ORDER BY id FOR UPDATE`)
	if err != nil {
		return err
	}
	able, err := pgx.CollectRows(admins, pgx.RowTo[uuid.UUID])
	if err != nil {
		return err
	}
	was, err := scanUser(tx.QueryRow(ctx, `SELECT `+userColumns+` FROM users WHERE id = $1 FOR UPDATE`, id))
	switch {
	case err != nil:
		return err
	case e.Version != 0 && e.Version != was.Version:
		return s.userConflict(ctx, tx, was)
	case len(able) == 1 && able[0] == id && (e.Change == ChangeDisable || (e.Change == ChangeRole && e.Role != RoleAdmin)):
		return ErrLastAdmin
	}
	is := was
	switch e.Change {
	case ChangeRole:
		is.Role = e.Role
	case ChangeDisable, ChangeEnable:
		is.Disabled = e.Change == ChangeDisable
	case ChangeResetFactor:
		is.HasFactor = false
		if err := dropFactors(ctx, tx, id); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, `
		UPDATE users SET role = $2, disabled = $3, has_factor = $4, password_hash = coalesce(nullif($5, ''), password_hash),
			version = version + 1, session_epoch = session_epoch + 1
		WHERE id = $1`, id, is.Role, is.Disabled, is.HasFactor, hash); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM sessions WHERE user_id = $1 AND token <> $2`, id, e.Keep); err != nil {
		return err
	}
	return s.Audit(ctx, tx, by, userActions[e.Change], "user:"+id.String(), e.Reason, userFacts(was), userFacts(is))
}

func userFacts(u User) map[string]any {
	return map[string]any{"role": u.Role, "disabled": u.Disabled, "second_factor": u.HasFactor}
}

// UserConflictError: the person was changed since the page was made (409). Nothing was
// changed.
type UserConflictError struct {
	By     string // who changed it, for people
	At     time.Time
	Action string // what they did, in the audit log's word
}

// Error implements error.
func (e *UserConflictError) Error() string {
	return "store: " + e.Action + " by " + e.By + " at " + e.At.Format(time.RFC3339)
}

// userConflict says who changed the person last.
func (s *Store) userConflict(ctx context.Context, tx pgx.Tx, u User) error {
	c := &UserConflictError{}
	err := tx.QueryRow(ctx, `
		SELECT a.action, a.at, coalesce(p.name, a.actor)
		FROM audit_log a LEFT JOIN users p ON a.actor = 'user:' || p.id
		WHERE a.target = 'user:' || $1::text AND a.action = ANY ($2) ORDER BY a.id DESC LIMIT 1`,
		u.ID, changesOfVersion).Scan(&c.Action, &c.At, &c.By)
	if errors.Is(err, pgx.ErrNoRows) {
		c.Action, c.At, c.By, err = "user.add", u.CreatedAt, u.Name, nil
	}
	if err != nil {
		return err
	}
	return c
}

// changesOfVersion are the audit actions that move a person's version.
var changesOfVersion = []string{"user.role", "user.disable", "user.enable", "user.sign_out_everywhere", "user.factor_reset",
	"user.passwd", "user.factor_add", "user.factor_remove"}

// SetPassword replaces a person's password, which ends their sessions. Errors:
// *provider.FieldError, ErrNotFound.
func (s *Store) SetPassword(ctx context.Context, email, password string, by Actor) error {
	return s.EditUserByEmail(ctx, email, UserEdit{Change: ChangePassword, Password: password}, by)
}

// SetDisabled lets a person in or keeps them out, at once. Errors: ErrNotFound,
// ErrLastAdmin.
func (s *Store) SetDisabled(ctx context.Context, email string, disabled bool, by Actor) error {
	change := ChangeEnable
	if disabled {
		change = ChangeDisable
	}
	return s.EditUserByEmail(ctx, email, UserEdit{Change: change}, by)
}

// SetRole changes what a person may do; they sign in anew. Errors: *provider.FieldError,
// ErrNotFound, ErrLastAdmin.
func (s *Store) SetRole(ctx context.Context, email string, role Role, by Actor) error {
	return s.EditUserByEmail(ctx, email, UserEdit{Change: ChangeRole, Role: role}, by)
}

// EditUserByEmail is EditUser for commands, which know people by their address.
func (s *Store) EditUserByEmail(ctx context.Context, email string, e UserEdit, by Actor) error {
	if e.Change == ChangePassword {
		if err := CheckPassword(e.Password); err != nil {
			return err
		}
	}
	u, err := s.UserByEmail(ctx, email)
	if err != nil {
		return err
	}
	_, err = s.EditUser(ctx, u.ID, e, by)
	return err
}
