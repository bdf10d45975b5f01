package simulator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// errClosed is returned for writes after Close.
var errClosed = errors.New("simulator: ledger is closed")

// journal is the append-only JSON-lines file behind the ledger. Lines appended
// at the same time share one fsync. The zero path keeps nothing.
type journal struct {
	mu      sync.Mutex
	more    *sync.Cond // lines to write, or closing
	synced  *sync.Cond // durable moved, or err is set
	file    *os.File   // nil in memory
	pending []byte
	last    uint64 // lines appended
	durable uint64 // lines known to be on disk
	err     error  // the first failure; sticky, since a gap cannot be repaired
	done    chan struct{}
}

// openJournal opens or creates the file and calls replay for each whole line. A
// torn last line, the trace of a crash in mid-write, is cut off: it was never
// answered to anyone.
func openJournal(path string, replay func(line []byte) error) (*journal, error) {
	j := &journal{done: make(chan struct{})}
	j.more, j.synced = sync.NewCond(&j.mu), sync.NewCond(&j.mu)
	if path == "" {
		close(j.done)
		return j, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("simulator: open ledger: %w", err)
	}
	if err := recoverFile(f, replay); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	j.file = f
	go j.flush()
	return j, nil
}

// recoverFile locks the file, replays it and leaves it positioned at its end.
func recoverFile(f *os.File, replay func(line []byte) error) error {
	if err := lockFile(f); err != nil {
		return fmt.Errorf("simulator: ledger %s is in use: %w", f.Name(), err)
	}
	good, err := replayLines(f, replay)
	if err != nil {
		return fmt.Errorf("simulator: ledger %s: %w", f.Name(), err)
	}
	if err := f.Truncate(good); err != nil {
		return fmt.Errorf("simulator: cut torn line: %w", err)
	}
	if _, err := f.Seek(good, io.SeekStart); err != nil {
		return err
	}
	return syncDir(filepath.Dir(f.Name()))
}

// syncDir makes a new file's name as durable as its content.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// replayLines feeds the whole lines of r to replay and returns how many bytes
// they take. A bad line is torn if nothing follows it, else corruption.
func replayLines(r io.Reader, replay func(line []byte) error) (good int64, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return good, nil // without its newline the last line is torn, if there is one
		}
		if err != nil {
			return good, err
		}
		body := bytes.TrimSuffix(line, []byte("\n"))
		if !json.Valid(body) {
			if _, err := in.Peek(1); errors.Is(err, io.EOF) {
				return good, nil
			}
			return good, fmt.Errorf("line %d is corrupt", n)
		}
		if err := replay(body); err != nil {
			return good, fmt.Errorf("line %d: %w", n, err)
		}
		good += int64(len(line))
	}
}

// keeps reports whether lines are written anywhere.
func (j *journal) keeps() bool { return j.file != nil }

// append queues a line and returns its number for wait.
func (j *journal) append(line []byte) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last++
	if j.file != nil {
		j.pending = append(append(j.pending, line...), '\n')
		j.more.Signal()
	}
	return j.last
}

// wait blocks until line n is on disk.
func (j *journal) wait(n uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return j.err
	}
	for j.err == nil && j.durable < n {
		j.synced.Wait()
	}
	return j.err
}

// barrier blocks until everything appended so far is on disk: what a reader has
// seen cannot be forgotten by a crash.
func (j *journal) barrier() error {
	j.mu.Lock()
	n := j.last
	j.mu.Unlock()
	return j.wait(n)
}

// flush writes and syncs what has gathered, until close.
func (j *journal) flush() {
	defer close(j.done)
	for {
		batch, upTo := j.take()
		if batch == nil {
			return
		}
		_, err := j.file.Write(batch)
		if err == nil {
			err = j.file.Sync()
		}
		j.settle(upTo, err)
		if err != nil {
			return
		}
	}
}

// take waits for lines and returns them, or nil once the journal is closed.
func (j *journal) take() ([]byte, uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.pending) == 0 && j.err == nil {
		j.more.Wait()
	}
	batch := j.pending
	j.pending = nil
	if len(batch) == 0 {
		return nil, 0
	}
	return batch, j.last
}

func (j *journal) settle(upTo uint64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.err = fmt.Errorf("simulator: write ledger: %w", err)
	} else {
		j.durable = upTo
	}
	j.synced.Broadcast()
}

// close writes what is queued and closes the file.
func (j *journal) close() error {
	err := j.barrier()
	j.mu.Lock()
	if j.err == nil {
		j.err = errClosed
	}
	j.more.Signal()
	j.synced.Broadcast()
	j.mu.Unlock()
	<-j.done
	if j.file == nil {
		return nil
	}
	return errors.Join(err, j.file.Close())
}
