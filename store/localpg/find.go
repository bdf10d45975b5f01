package localpg

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// patterns of the folders packagers put the server programs in, * being a version.
var patterns = []string{
	"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                   // RPM packages of the PostgreSQL project
	"/usr/libexec/postgresql*",           // Alpine
	"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on Apple silicon
	"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
}

// find returns the folder of initdb and postgres: from PATH, from the packagers'
// folders, newest first, or downloaded.
func find(log *slog.Logger) (string, error) {
	if dir, ok := inPath(); ok {
		return dir, nil
	}
	if dir, ok := inFolders(patterns); ok {
		return dir, nil
	}
	dir, err := download(log)
	if err != nil {
		return "", fmt.Errorf("%w (downloading one failed too: %w)", ErrNoPostgres, err)
	}
	return dir, nil
}

func inPath() (string, bool) {
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", false
	}
	// Follow links: the programs look for their libraries beside themselves.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", false
	}
	dir := filepath.Dir(path)
	return dir, complete(dir)
}

func inFolders(patterns []string) (string, bool) {
	var found []string
	for _, p := range patterns {
		dirs, err := filepath.Glob(p)
		if err != nil {
			continue
		}
		found = append(found, slices.DeleteFunc(dirs, func(d string) bool { return !complete(d) })...)
	}
	if len(found) == 0 {
		return "", false
	}
	slices.SortStableFunc(found, func(a, b string) int { return version(b) - version(a) })
	return found[0], true
}

// complete reports whether dir holds both programs.
func complete(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.IsDir() || st.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}

// version reads the major version out of a folder's path; 0 without one.
func version(dir string) int {
	for _, part := range slices.Backward(strings.FieldsFunc(dir, func(r rune) bool { return r == '/' })) {
		digits := strings.TrimLeft(part, "abcdefghijklmnopqrstuvwxyz-@.")
		if n, err := strconv.Atoi(digits); err == nil {
			return n
		}
	}
	return 0
}
