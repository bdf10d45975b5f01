package localpg

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// install fakes a folder of server programs.
func install(t *testing.T, dir string, names ...string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for _, n := range names {
		require.NoError(t, os.WriteFile(filepath.Join(dir, n), []byte("#!/bin/sh\n"), 0o700)) //nolint:gosec // a program
	}
	return dir
}

func TestFoldersNewestCompleteVersionWins(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	install(t, filepath.Join(root, "9/bin"), "initdb", "postgres")
	want := install(t, filepath.Join(root, "15/bin"), "initdb", "postgres")
	install(t, filepath.Join(root, "17/bin"), "initdb") // client tools only
	got, ok := inFolders([]string{filepath.Join(root, "none/*"), filepath.Join(root, "*/bin")})
	require.True(t, ok)
	require.Equal(t, want, got)
	_, ok = inFolders([]string{filepath.Join(root, "17/*")})
	require.False(t, ok)
}

func TestVersionOfAFolder(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]int{
		"/usr/lib/postgresql/15/bin":          15,
		"/opt/homebrew/opt/postgresql@17/bin": 17,
		"/usr/pgsql-16/bin":                   16,
		"/usr/libexec/postgresql18":           18,
		"/somewhere/else":                     0,
	} {
		require.Equal(t, want, version(dir), dir)
	}
}

func TestProgramsOnThisMachineAreFoundWithoutDownload(t *testing.T) {
	t.Parallel()
	_, inPath := inPath()
	_, inFolders := inFolders(patterns)
	require.True(t, inPath || inFolders, "these tests run where PostgreSQL is installed")
}

func TestOwnerNamesTheDirectoryItCannotPass(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "closed")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "pg"), 0o700))
	o := &owner{uid: 54321, gid: 54321, drop: true}
	require.ErrorContains(t, o.reaches(filepath.Join(dir, "pg")), dir)
	o.drop = false
	require.NoError(t, o.reaches(filepath.Join(dir, "pg")))
}
