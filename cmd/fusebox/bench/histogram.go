package bench

import (
	"math/bits"
	"time"
)

// perOctave is the number of buckets per doubling: values are kept to within 2 %.
const perOctave = 64

// histogram counts durations in buckets of growing width. The zero value is empty.
type histogram struct {
	n       int
	buckets [64 * perOctave]int
}

func bucketOf(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < perOctave {
		return int(v)
	}
	octave := bits.Len64(v) - bits.Len64(perOctave) + 1
	return octave*perOctave + int(v>>(octave-1)) - perOctave
}

// lower is the least duration of a bucket.
func lower(bucket int) time.Duration {
	if bucket < perOctave {
		return time.Duration(bucket)
	}
	octave := bucket / perOctave
	return time.Duration(uint64(bucket%perOctave+perOctave) << (octave - 1))
}

func (h *histogram) add(d time.Duration) {
	h.n++
	h.buckets[bucketOf(d)]++
}

func (h *histogram) merge(o *histogram) {
	h.n += o.n
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
}

// quantile returns the duration that a share q of the values does not exceed, 0 without
// values.
func (h *histogram) quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank, seen := int(q*float64(h.n-1)), 0
	for i, n := range h.buckets {
		if seen += n; seen > rank {
			return lower(i)
		}
	}
	return 0
}
