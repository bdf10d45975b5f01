package store

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// CountCap bounds every count shown on a list: a screen says "10,000+" instead of
// counting a table, so a list costs the same however large the books are.
const CountCap = 10_000

// where gathers the conditions of one list query and their arguments. Conditions
// are written with ? for each argument.
type where struct {
	conds []string
	args  []any
}

// and adds a condition; each ? in cond takes the next of args.
func (w *where) and(cond string, args ...any) {
	var b strings.Builder
	for _, part := range strings.SplitAfter(cond, "?") {
		if before, isArg := strings.CutSuffix(part, "?"); isArg {
			b.WriteString(before)
			b.WriteString(w.arg(args[0]))
			args = args[1:]
			continue
		}
		b.WriteString(part)
	}
	w.conds = append(w.conds, b.String())
}

// arg adds an argument outside a condition and returns its placeholder.
func (w *where) arg(v any) string {
	w.args = append(w.args, v)
	return "$" + strconv.Itoa(len(w.args))
}

// planned are the arguments for a query that is planned for them each time. A plan kept
// for any value would read the whole table for a rare one.
func (w *where) planned() []any {
	return append([]any{pgx.QueryExecModeCacheDescribe}, w.args...)
}

// String returns "WHERE …", or nothing without conditions.
func (w *where) String() string {
	if len(w.conds) == 0 {
		return ""
	}
	return "WHERE " + strings.Join(w.conds, " AND ")
}

// likePrefix turns typed text into a LIKE pattern for "begins with", so that % and _
// in the text stand for themselves.
func likePrefix(text string) string { return likeEscaper.Replace(text) + "%" }

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// pageOf cuts rows read with limit+1 to limit and says whether there were more.
func pageOf[T any](rows []T, limit int) ([]T, bool) {
	if len(rows) > limit {
		return rows[:limit], true
	}
	return rows, false
}
