package simulator

import (
	"encoding/binary"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
)

// unit maps seed and words to a number in [0, 1), the same one every time.
func unit(seed uint64, words ...string) float64 {
	return float64(mix(seed, words...)>>11) / (1 << 53)
}

// mix hashes seed and words. FNV alone leaves neighbouring inputs correlated in
// the high bits, so a splitmix64 finaliser follows.
func mix(seed uint64, words ...string) uint64 {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	h.Write(b[:])
	for _, w := range words {
		h.Write([]byte(w))
		h.Write([]byte{0})
	}
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// picks are the faults someone chose for a payment, with how often each happens;
// 0 is the kind's own habit. A nil map means nobody chose: draw by rate.
type picks map[Fault]int

// pickWord begins a choice.
const pickWord = "fault:"

var pickPattern = regexp.MustCompile(pickWord + `([a-z0-9_*,]+)`)

// picksOf reads the choice out of an order reference or an amount.
func picksOf(orderRef string, amount int64) picks {
	var p picks
	if !strings.Contains(orderRef, pickWord) && amount < FaultAmount {
		return nil // nearly always
	}
	for _, m := range pickPattern.FindAllStringSubmatch(orderRef, -1) {
		if p == nil {
			p = picks{}
		}
		for word := range strings.SplitSeq(m[1], ",") {
			name, times, _ := strings.Cut(word, "*")
			n, _ := strconv.Atoi(times)
			if _, ok := info(Fault(name)); ok {
				p[Fault(name)] = max(n, 0)
			}
		}
	}
	for _, in := range catalogue {
		if amount == FaultAmount+in.Code {
			if p == nil {
				p = picks{}
			}
			p[in.Name] = 0
		}
	}
	return p
}

// subject is a payment as far as drawing its faults is concerned.
type subject struct {
	reference string
	orderRef  string
	amount    int64
}

// chargeFault returns the fault of the nth (from 1) executing request of a
// payment, or "".
func (f Faults) chargeFault(seed uint64, s subject, nth int) Fault {
	if p := picksOf(s.orderRef, s.amount); p != nil {
		for _, in := range catalogue {
			if n, ok := p[in.Name]; ok && in.Kind == KindCharge && nth <= max(n, 1) {
				return in.Name
			}
		}
		return ""
	}
	if len(f.Rates) == 0 {
		return ""
	}
	u := unit(seed, "charge", s.reference)
	for _, in := range catalogue {
		rate := f.Rates[in.Name]
		if in.Kind != KindCharge || rate == 0 {
			continue
		}
		if u < rate && (nth == 1 || rate == 1) {
			return in.Name
		}
		u -= rate
		if u < 0 {
			return ""
		}
	}
	return ""
}

// happens reports whether a webhook or lookup fault hits the nth occasion of a
// kind that what names (an event type, a lookup's number).
func (f Faults) happens(seed uint64, name Fault, s subject, what string, nth int) bool {
	if p := picksOf(s.orderRef, s.amount); p != nil {
		n, ok := p[name]
		return ok && (n == 0 || nth <= n)
	}
	rate := f.Rates[name]
	return rate > 0 && unit(seed, string(name), s.reference, what) < rate
}
