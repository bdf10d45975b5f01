package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// prefix of every key a benchmark writes.
const prefix = "fusebox:bench:"

// BreakerOptions of Breaker.
type BreakerOptions struct {
	RedisURL string        // empty: a private redis-server
	Rounds   int           // every arm has a turn in each, in changing order
	For      time.Duration // length of one turn
	JSON     bool
	Progress io.Writer // told what runs; may be nil
}

// BreakerReport is what Breaker measured.
type BreakerReport struct {
	Redis  string `json:"redis"` // server version
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
	Rounds int    `json:"rounds"`
	Cells  []Cell `json:"cells"`

	RatioVsGobreaker64  float64 `json:"ratio_vs_gobreaker_64"` // calls/s without work, higher is better
	RatioVsFloor64      float64 `json:"ratio_vs_floor_64"`
	P99VsFloor64        float64 `json:"p99_vs_floor_64"`        // lower is better
	Work50msOverhead64  float64 `json:"work50ms_overhead_64"`   // how much longer a call takes than without any breaker, in the mean
	LeakedTotal         int     `json:"leaked_total"`           // calls to a dead provider
	LeakedAfterOpen     int     `json:"leaked_after_open"`      // of these, asked for after it was open
	LeakThreshold       int     `json:"leak_threshold"`         // failures that open it
	LeakWorkers         int     `json:"leak_workers"`           // processes
	LeakedGobreaker     int     `json:"leaked_gobreaker_total"` // the peer's, in the same arrangement
	LeakedGobreakerOpen int     `json:"leaked_gobreaker_after_open"`
}

// Cell is one kind of work at one number of goroutines.
type Cell struct {
	WorkMS     int               `json:"work_ms"`
	Goroutines int               `json:"goroutines"`
	Arms       map[string]Result `json:"arms"`
}

// Breaker measures the breaker against two bare round trips and sony/gobreaker, and
// counts the calls that leak to a dead provider.
func Breaker(ctx context.Context, o BreakerOptions, out io.Writer) error {
	if o.Rounds < 1 || o.For <= 0 {
		return fmt.Errorf("--rounds and --for: must be positive")
	}
	server, err := openRedis(ctx, o.RedisURL)
	if err != nil {
		return err
	}
	defer server.stop()
	r := BreakerReport{Redis: server.version, CPUs: runtime.NumCPU(), Go: runtime.Version(), Rounds: o.Rounds}
	for _, work := range []time.Duration{0, 50 * time.Millisecond} {
		for _, n := range []int{1, 8, 64} {
			cell, err := o.cell(ctx, server.url, work, n)
			if err != nil {
				return err
			}
			r.Cells = append(r.Cells, cell)
		}
	}
	o.say("calls that leak to a dead provider")
	if err := r.leaks(ctx, server.url); err != nil {
		return err
	}
	r.ratios()
	if o.JSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	return r.print(out)
}

func (o BreakerOptions) say(format string, args ...any) {
	if o.Progress != nil {
		fmt.Fprintf(o.Progress, format+"\n", args...)
	}
}

// cell races all arms; each round begins with another, so that none always follows the
// same neighbour.
func (o BreakerOptions) cell(ctx context.Context, url string, work time.Duration, goroutines int) (Cell, error) {
	arms := []arm{floor(url), ours(url), gobreakerShared(url), gobreakerLocal()}
	job := func() {}
	if work > 0 {
		arms = append(arms, bare())
		job = func() { time.Sleep(work) }
	}
	laps := map[string][]lap{}
	for round := range o.Rounds {
		for i := range arms {
			a := arms[(i+round)%len(arms)]
			o.say("work %s, %d goroutines, round %d: %s", work, goroutines, round+1, a.name)
			name := fmt.Sprintf("w%dg%dr%d", work.Milliseconds(), goroutines, round)
			l, err := race(ctx, a, name, goroutines, o.For, job)
			if err != nil {
				return Cell{}, err
			}
			laps[a.name] = append(laps[a.name], l)
		}
	}
	cell := Cell{WorkMS: int(work.Milliseconds()), Goroutines: goroutines, Arms: map[string]Result{}}
	for name, ls := range laps {
		cell.Arms[name] = sum(ls)
	}
	return cell, nil
}

func (r *BreakerReport) cell(workMS, goroutines int) map[string]Result {
	for _, c := range r.Cells {
		if c.WorkMS == workMS && c.Goroutines == goroutines {
			return c.Arms
		}
	}
	return nil
}

func (r *BreakerReport) ratios() {
	quick, slow := r.cell(0, 64), r.cell(50, 64)
	r.RatioVsGobreaker64 = share(quick["ours"].CallsPerS, quick["gobreaker"].CallsPerS)
	r.RatioVsFloor64 = share(quick["ours"].CallsPerS, quick["floor"].CallsPerS)
	r.P99VsFloor64 = share(quick["ours"].P99us, quick["floor"].P99us)
	r.Work50msOverhead64 = share(slow["ours"].MeanUs-slow["bare"].MeanUs, slow["bare"].MeanUs)
}

// share is a / b to four digits; 0 when b is.
func share(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return math.Round(a/b*1e4) / 1e4
}

// print shows the report as tables.
func (r *BreakerReport) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "Redis %s, %s, %d CPUs, median of %d rounds\n", r.Redis, r.Go, r.CPUs, r.Rounds)
	for _, c := range r.Cells {
		fmt.Fprintf(w, "\nwork %d ms, %d at once\tcalls/s\tmean µs\tp50 µs\tp99 µs\tmax µs\terrors\trecorded\tmade\t\n", c.WorkMS, c.Goroutines)
		for _, name := range []string{"bare", "floor", "ours", "gobreaker", "gobreaker_memory"} {
			a, ok := c.Arms[name]
			if !ok {
				continue
			}
			recorded := fmt.Sprint(a.Recorded)
			if a.Recorded < 0 {
				recorded = "–"
			}
			fmt.Fprintf(w, "%s\t%.0f\t%.1f\t%.1f\t%.1f\t%.0f\t%d\t%s\t%d\t\n", name, a.CallsPerS, a.MeanUs, a.P50us, a.P99us, a.Maxus, a.Errors, recorded, a.Made)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	lines := []string{
		"",
		fmt.Sprintf("calls/s against gobreaker at 64: %.1f (goal: at least 8)", r.RatioVsGobreaker64),
		fmt.Sprintf("calls/s against two bare round trips at 64: %.2f (goal: at least 1)", r.RatioVsFloor64),
		fmt.Sprintf("p99 against two bare round trips at 64: %.2f (goal: at most 1)", r.P99VsFloor64),
		fmt.Sprintf("cost beside 50 ms of work at 64: %.2f %% (goal: at most 2 %%)", 100*r.Work50msOverhead64),
		fmt.Sprintf("calls to a dead provider, %d processes, %d failures open it: %d, after it was open: %d (goal: at most %d, and 0)",
			r.LeakWorkers, r.LeakThreshold, r.LeakedTotal, r.LeakedAfterOpen, r.LeakThreshold+r.LeakWorkers-1),
		fmt.Sprintf("the same with gobreaker: %d, after it was open: %d", r.LeakedGobreaker, r.LeakedGobreakerOpen),
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}
