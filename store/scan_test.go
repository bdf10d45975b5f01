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

// statusTables are the tables whose status has one writer, and one place of birth, each.
var statusTables = map[string]struct{ writer, birth string }{
	"payments":   {"transitions.go", "create.go"},
	"operations": {"operation_transitions.go", "operation.go"},
}

// setStatus finds the column in a SET list.
var setStatus = regexp.MustCompile(`(?i)(?:^|[\s,(])"?status"?\s*(?:=|,|\))`)

// tableScan finds an UPDATE of a table (also as a quoted or schema-qualified name, also
// ON CONFLICT) and its SET list.
type tableScan struct{ update, insert, merge *regexp.Regexp }

func scanOf(table string) tableScan {
	return tableScan{
		update: regexp.MustCompile(`(?is)\bUPDATE\s+(?:ONLY\s+)?(?:"?public"?\s*\.\s*)?"?` + table + `\b"?(?:\s+(?:AS\s+)?[a-z_]\w*)?\s+SET\b(.*?)(?:\bWHERE\b|\bFROM\b|\bRETURNING\b|` + "`" + `|;|$)`),
		insert: regexp.MustCompile(`(?is)\bINSERT\s+INTO\s+"?` + table + `\b"?.*?(?:` + "`" + `|;|$)`),
		merge:  regexp.MustCompile(`(?is)\b(?:MERGE\s+INTO|COPY)\s+"?` + table + `\b"?`),
	}
}

// writesStatus returns what in a source text writes the table's status.
func (s tableScan) writesStatus(text string) string {
	for _, m := range s.update.FindAllStringSubmatch(text, -1) {
		if setStatus.MatchString(m[1]) {
			return m[0]
		}
	}
	for _, m := range s.insert.FindAllString(text, -1) {
		if i := strings.Index(strings.ToUpper(m), "DO UPDATE"); i >= 0 && setStatus.MatchString(m[i:]) {
			return m
		}
	}
	return s.merge.FindString(text)
}

// Only transitions.go may write payments.status, and operation_transitions.go
// operations.status. (Each row is born by the one INSERT of its table; test files seed
// rows as they like.)
func TestOnlyTransitionsWritesStatus(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	scans, inserts := map[string]tableScan{}, map[string]int{}
	for table := range statusTables {
		scans[table] = scanOf(table)
	}
	scanned := 0
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
		for table, in := range statusTables {
			if n := len(scans[table].insert.FindAll(b, -1)); n > 0 {
				require.Equal(t, filepath.Join("store", in.birth), rel)
				inserts[table] += n
			}
			found := scans[table].writesStatus(string(b))
			if rel == filepath.Join("store", in.writer) {
				require.NotEmpty(t, found, "the scan must see the one writer there is")
				continue
			}
			require.Empty(t, found, "%s writes %s.status", rel, table)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, scanned, 20)
	require.Equal(t, map[string]int{"payments": 1, "operations": 1}, inserts, "rows are born in one place")
}

func TestScanSeesEveryWayToWriteStatus(t *testing.T) {
	t.Parallel()
	writesStatus := scanOf("payments").writesStatus
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
	operations := scanOf("operations").writesStatus
	require.NotEmpty(t, operations("UPDATE operations o SET version = 2, status = 'failed'"))
	require.Empty(t, operations("UPDATE payments SET status = 'failed'"))
	require.Empty(t, operations("UPDATE operations SET beyond = $2 WHERE status = 'failed'"))
}
