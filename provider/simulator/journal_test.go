package simulator

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// lines opens a journal and returns what it replays.
func lines(t *testing.T, path string) (*journal, []string) {
	t.Helper()
	var got []string
	j, err := openJournal(path, func(line []byte) error {
		got = append(got, string(line))
		return nil
	})
	require.NoError(t, err)
	return j, got
}

// A crash can cut the file at any byte. What comes back is always a prefix of what
// was written, and every line before the cut is there.
func TestJournalCutAnywhere(t *testing.T) {
	t.Parallel()
	var want []string
	var whole bytes.Buffer
	for i := range 6 {
		line := fmt.Sprintf(`{"n":%d,"text":"%s"}`, i, strings.Repeat("x", i*3))
		want = append(want, line)
		whole.WriteString(line + "\n")
	}
	path := ledgerFile(t)
	for cut := range whole.Len() + 1 {
		require.NoError(t, os.WriteFile(path, whole.Bytes()[:cut], 0o600))
		complete := bytes.Count(whole.Bytes()[:cut], []byte("\n"))
		j, got := lines(t, path)
		require.Equal(t, want[:complete], append([]string{}, got...), "cut at %d", cut)
		require.NoError(t, j.wait(j.append([]byte(`{"after":true}`))))
		require.NoError(t, j.close())

		j, got = lines(t, path)
		require.Equal(t, append(append([]string{}, want[:complete]...), `{"after":true}`), got, "cut at %d", cut)
		require.NoError(t, j.close())
	}
}

// A line that was waited for is in the file before wait returns, and lines keep
// the order of their numbers.
func TestJournalWaitMeansWritten(t *testing.T) {
	t.Parallel()
	path := ledgerFile(t)
	j, _ := lines(t, path)
	var mu sync.Mutex
	order := map[uint64]string{}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 25 {
				line := fmt.Sprintf(`{"w":%d,"i":%d}`, w, i)
				n := j.append([]byte(line))
				if err := j.wait(n); err != nil {
					t.Error(err)
				}
				raw, err := os.ReadFile(path)
				if err != nil || !bytes.Contains(raw, []byte(line+"\n")) {
					t.Errorf("%s is not in the file (%v)", line, err)
				}
				mu.Lock()
				order[n] = line
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.NoError(t, j.close())
	_, got := lines(t, path)
	require.Len(t, got, 200)
	for i, line := range got {
		require.Equal(t, order[uint64(i+1)], line)
	}
}

// Close writes what nobody waited for.
func TestJournalCloseFlushes(t *testing.T) {
	t.Parallel()
	path := ledgerFile(t)
	j, _ := lines(t, path)
	j.append([]byte(`{"n":1}`))
	require.NoError(t, j.close())
	require.ErrorIs(t, j.wait(j.append([]byte(`{"n":2}`))), errClosed)
	_, got := lines(t, path)
	require.Equal(t, []string{`{"n":1}`}, got)
}

// The first failure sticks: later lines would stand behind a gap.
func TestJournalFailureSticks(t *testing.T) {
	t.Parallel()
	j, _ := lines(t, ledgerFile(t))
	require.NoError(t, j.file.Close()) // the disk goes away
	require.ErrorIs(t, j.wait(j.append([]byte(`{}`))), os.ErrClosed)
	require.ErrorIs(t, j.wait(j.append([]byte(`{}`))), os.ErrClosed)
	require.ErrorIs(t, j.barrier(), os.ErrClosed)
	require.ErrorIs(t, j.close(), os.ErrClosed)
}

func TestJournalInMemory(t *testing.T) {
	t.Parallel()
	j, got := lines(t, "")
	require.Empty(t, got)
	require.NoError(t, j.wait(j.append([]byte(`{}`))))
	require.NoError(t, j.close())
	require.ErrorIs(t, j.wait(j.append([]byte(`{}`))), errClosed)
}
