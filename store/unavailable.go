package store

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
)

// Unavailable reports whether err says that Postgres cannot serve us now (gone,
// shutting down, full, contended or too slow) and the same request may succeed later.
func Unavailable(err error) bool {
	if err == nil {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return transientCode(pg.Code)
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, puddle.ErrClosedPool) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// transientCode reports whether a SQLSTATE is about the server's state and not the
// statement: serialization and deadlock, lock timeout, statement timeout, a server that
// is not the primary any more, and the classes connection exception, insufficient
// resources and operator intervention.
func transientCode(code string) bool {
	switch code {
	case codeSerialization, codeDeadlock, codeLockTimeout, codeReadOnly:
		return true
	}
	return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53") || strings.HasPrefix(code, "57")
}
