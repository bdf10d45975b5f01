package localpg

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// downloaded is the version fetched when the machine has none.
const downloaded = embeddedpostgres.V17

// download fetches and unpacks server programs into a cache and returns their
// folder. Only the fetching of embedded-postgres is used: it cannot drop root, and
// its server outlives a killed parent. Its Start also runs initdb in a scratch
// directory, which fails for root after the programs are in place; so what counts
// is whether they are there.
func download(log *slog.Logger) (string, error) {
	root, err := cacheDir()
	if err != nil {
		return "", err
	}
	programs := filepath.Join(root, "postgres-"+string(downloaded))
	bin := filepath.Join(programs, "bin")
	if complete(bin) {
		return bin, nil
	}
	log.Info("no PostgreSQL on this machine, downloading one", "version", string(downloaded), "to", programs)
	scratch, err := os.MkdirTemp("", "fusebox-pg-fetch-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	port, err := freePort()
	if err != nil {
		return "", err
	}
	fetcher := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(downloaded).
		Port(port).
		CachePath(root).
		BinariesPath(programs).
		RuntimePath(filepath.Join(scratch, "run")).
		DataPath(filepath.Join(scratch, "data")).
		Logger(io.Discard))
	startErr := fetcher.Start()
	if startErr == nil {
		startErr = fetcher.Stop()
	}
	if !complete(bin) {
		return "", fmt.Errorf("fetching PostgreSQL %s: %w", downloaded, startErr)
	}
	return bin, nil
}

// cacheDir is a directory that the server's user can read: root's own cache is
// closed to everybody else.
func cacheDir() (string, error) {
	base := "/var/cache"
	if os.Geteuid() != 0 {
		var err error
		if base, err = os.UserCacheDir(); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(base, "fusebox")
	return dir, os.MkdirAll(dir, 0o755) //nolint:gosec // programs, readable by the server's user
}
