package store

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// updatePayments finds an UPDATE of payments (also as a quoted or schema-qualified
// name, also ON CONFLICT) and its SET list.
var (
	updatePayments = regexp.MustCompile(`(?is)\bUPDATE\s+(?:ONLY\s+)?(?:"?public"?\s*\.\s*)?"?payments\b"?(?:\s+(?:AS\s+)?[a-z_]\w*)?\s+SET\b(.*?)(?:\bWHERE\b|\bFROM\b|\bRETURNING\b|` + "`" + `|;|$)`)
	insertPayments = regexp.MustCompile(`(?is)\bINSERT\s+INTO\s+"?payments\b"?.*?(?:` + "`" + `|;|$)`)
	mergePayments  = regexp.MustCompile(`(?is)\b(?:MERGE\s+INTO|COPY)\s+"?payments\b"?`)
	setStatus      = regexp.MustCompile(`(?i)(?:^|[\s,(])"?status"?\s*(?:=|,|\))`)
)

// writesStatus returns what in a source text writes payments.status.
func writesStatus(text string) string {
	for _, m := range updatePayments.FindAllStringSubmatch(text, -1) {
		if setStatus.MatchString(m[1]) {
			return m[0]
		}
	}
	for _, m := range insertPayments.FindAllString(text, -1) {
		if i := strings.Index(strings.ToUpper(m), "DO UPDATE"); i >= 0 && setStatus.MatchString(m[i:]) {
			return m
		}
	}
	return mergePayments.FindString(text)
}

// Only transitions.go may write payments.status. (A payment is born pending by the one
// INSERT in create.go; test files seed rows as they like.)
func TestOnlyTransitionsWritesPaymentStatus(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	scanned, inserts := 0, 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n == "node_modules" || n == ".git" || n == "bin" || n == "dist" {
				return filepath.SkipDir
			}
			return nil
		}
		rel, _ := filepath.Rel(root, path)
		if ext := filepath.Ext(path); (ext != ".go" && ext != ".sql" && ext != ".templ") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(rel, "store/storetest/") {
			return nil
		}
		b, err := os.ReadFile(path) //nolint:gosec // our own tree
		if err != nil {
			return err
		}
		scanned++
		inserts += len(insertPayments.FindAll(b, -1))
		found := writesStatus(string(b))
		if rel == filepath.Join("store", "transitions.go") {
			require.NotEmpty(t, found, "the scan must see the one writer there is")
			return nil
		}
		require.Empty(t, found, "%s writes payments.status", rel)
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, scanned, 20)
	require.Equal(t, 1, inserts, "payments are born in one place")
}

func TestScanSeesEveryWayToWriteStatus(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"UPDATE payments SET status = 'failed' WHERE id = $1",
		"update  payments p\n set version = 1,\n status='x'",
		`UPDATE "payments" AS p SET "status" = $1`,
		"UPDATE public.payments SET (status, version) = ($1, $2) WHERE id = $3",
		"UPDATE ONLY payments SET updated_at = now(), status=$1 FROM x",
		"INSERT INTO payments (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET status = 'x'",
		"MERGE INTO payments USING x ON true",
	} {
		require.NotEmpty(t, writesStatus(bad), bad)
	}
	for _, good := range []string{
		"UPDATE payments SET next_check_at = $1 WHERE status = 'pending'",
		"UPDATE payments SET status_reason = $1",
		"UPDATE attempts SET status = 1; SELECT status FROM payments",
		"INSERT INTO payments (id, status) VALUES ($1, 'pending') ON CONFLICT DO NOTHING",
	} {
		require.Empty(t, writesStatus(good), good)
	}
}
