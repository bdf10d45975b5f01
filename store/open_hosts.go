package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNotPrimary is among the errors of a connection when a server takes no writes and
// the database URL wants one that does (target_session_attrs=read-write).
var ErrNotPrimary = errors.New("store: the server takes no writes")

// Limits that tell a machine that vanished from one that is busy. Without them a query
// without a deadline would wait for minutes, until the kernel gives the connection up.
const (
	pingTimeout = 3 * time.Second // of a connection that was idle, before it is used
	silence     = 20 * time.Second
	keepIdle    = 10 * time.Second
	keepEvery   = 5 * time.Second
)

// hosts follows the primary among the hosts of a database URL. The order in the URL says
// where to look first; after a failover that host may be silent, and every new connection
// would wait for it. So the one that answered last is asked first.
type hosts struct {
	last atomic.Pointer[string] // address of the last connection
	pool atomic.Pointer[pgxpool.Pool]
}

// follow has cfg's pool follow the primary. With one host only it watches connections.
func (h *hosts) follow(cfg *pgxpool.Config) {
	c := cfg.ConnConfig
	cfg.PingTimeout = pingTimeout
	c.DialFunc = watchfulDialer().DialContext
	keep := c.OnPgError
	c.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		// It was the primary once. Closed, the next connection looks for who is now.
		return err.Code != codeReadOnly && keep(conn, err)
	}
	valid := c.ValidateConnect
	if valid != nil {
		c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
			if err := valid(ctx, conn); err != nil {
				return fmt.Errorf("%w: %w", ErrNotPrimary, err)
			}
			return nil
		}
	}
	if valid == nil || !slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != c.Host || f.Port != c.Port }) {
		return
	}
	cfg.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		h.prefer(ctx, c)
		return nil
	}
	then := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		h.connected(ctx, cfg.ConnConfig, c.PgConn().Conn().RemoteAddr().String())
		return then(ctx, c)
	}
}

// watchfulDialer gives a connection up when the other machine says nothing at all, not
// even that it received something, for silence.
func watchfulDialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepIdle, Interval: keepEvery, Count: 2},
		Control:         giveUpAfter(silence),
	}
}

// prefer moves the host that answered last to the front.
func (h *hosts) prefer(ctx context.Context, c *pgx.ConnConfig) {
	last := h.last.Load()
	if last == nil {
		return
	}
	var front, back []*pgconn.FallbackConfig
	for _, f := range places(c) {
		if slices.Contains(addresses(ctx, c, f), *last) {
			front = append(front, f)
		} else {
			back = append(back, f)
		}
	}
	all := append(front, back...)
	c.Host, c.Port, c.TLSConfig, c.Fallbacks = all[0].Host, all[0].Port, all[0].TLSConfig, all[1:]
}

// places are the hosts in the order of the database URL, each once per way of encryption.
func places(c *pgx.ConnConfig) []*pgconn.FallbackConfig {
	first := &pgconn.FallbackConfig{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}
	return append([]*pgconn.FallbackConfig{first}, c.Fallbacks...)
}

// addresses are those that a connection to f can have. None if its name is unknown.
func addresses(ctx context.Context, c *pgx.ConnConfig, f *pgconn.FallbackConfig) []string {
	if network, address := pgconn.NetworkAddress(f.Host, f.Port); network == "unix" {
		return []string{address}
	}
	ips, err := c.LookupFunc(ctx, f.Host)
	if err != nil {
		return nil // connecting to it will say so
	}
	for i, ip := range ips {
		ips[i] = net.JoinHostPort(ip, strconv.Itoa(int(f.Port)))
	}
	return ips
}

// connected notes where a connection leads. To another host than before means that the
// primary has changed: the pool's other connections, which may be silent or lead to a
// server that does not know yet, are not used again.
func (h *hosts) connected(ctx context.Context, c *pgx.ConnConfig, address string) {
	before, pool := h.last.Swap(&address), h.pool.Load()
	if before == nil || *before == address || pool == nil {
		return
	}
	for _, f := range places(c) {
		if list := addresses(ctx, c, f); slices.Contains(list, *before) && slices.Contains(list, address) {
			return // a name with several addresses
		}
	}
	pool.Reset()
}
