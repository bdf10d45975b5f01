package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
)

// sim is a simulated provider in a process of its own. Its ledger is a file and outlives it.
type sim struct {
	*unit
	provider string
	listen   string
	control  string
}

// preset is what each provider does wrong besides what the schedule does to it. steady
// is healthy; stripe is the other API, with every fault that settles by itself; nokeys
// ignores idempotency keys, so that nothing may be sent twice.
var preset = map[string]string{"steady": "healthy", "stripe": "settling", "nokeys": "healthy"}

// timing fits the time limits in settings: an absence counts after the slowest charge is
// visible.
var timing = map[string]string{
	"silent": "8s", "slow": "900ms", "drip": "120ms", "in_progress": "2500ms", "retry_after": "1s",
	"async": "1500ms", "action": "5s", "late": "2s", "lag": "1500ms", "not_found": "1500ms",
}

func newSim(w *world, name, hooks string, seed uint64) (*sim, error) {
	s := &sim{provider: name}
	var err error
	if s.listen, err = freeAddress(); err != nil {
		return nil, err
	}
	if s.control, err = freeAddress(); err != nil {
		return nil, err
	}
	args := []string{w.o.Binary, "simulate", "--name", name, "--listen", s.listen, "--control", s.control,
		"--ledger", filepath.Join(w.dir, name+".jsonl"), "--api-key", chaosAPIKey, "--seed", strconv.FormatUint(seed, 10),
		"--webhook-url", "http://" + hooks + "/" + name, "--webhook-secret", chaosSecret, "--preset", preset[name]}
	if name == "nokeys" {
		args = append(args, "--no-keys")
	}
	s.unit = &unit{name: "sim-" + name, args: args, dir: w.logs}
	// Ready once it has its timing: the command line has no flags for that.
	s.ready = func(ctx context.Context) error { return s.tell(ctx, map[string]any{"timing": timing}) }
	return s, nil
}

// tell changes the simulator's faults.
func (s *sim) tell(ctx context.Context, patch map[string]any) error {
	b, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+s.control+"/_sim/faults", bytes.NewReader(b))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %s", s.name, res.Status, text)
	}
	return nil
}

// heal ends the provider's own faults.
func (s *sim) heal(ctx context.Context) error {
	return s.tell(ctx, map[string]any{"preset": "healthy", "outage": "none"})
}

// settings is the provider's configuration for the product, at a demo's pace.
func (s *sim) settings(base string) []string {
	kind, absent, noKeys, horizon := "gateway", "recharge", "false", "7s"
	switch s.provider {
	case "stripe":
		// Nothing is charged twice under a key, so what was not there soon may be sent again:
		// a stored 500 is asked for four times before it counts.
		kind, horizon = "stripe", "4s"
	case "nokeys":
		absent, noKeys = "fail", "true" // there is nothing to send again under
	}
	prefix := "PROVIDER_" + strings.ToUpper(s.provider) + "_"
	set := map[string]string{
		"KIND": kind, "BASE_URL": base, "API_KEY": chaosAPIKey, "WEBHOOK_SECRETS": chaosSecret,
		"LEDGER_URL": "http://" + s.control + "/_sim/ledger", "NO_KEYS": noKeys, "ON_ABSENT": absent,
		"CONNECT_TIMEOUT": "500ms", "ANSWER_TIMEOUT": "1500ms", "CHARGE_WORKERS": "8", "STATUS_WORKERS": "6",
		"ABSENT_HORIZON": horizon, "RETRY_PAUSES": "1s,2s,4s,8s", "RECONCILE_PAUSES": "1s,2s,3s", "QUICK_RECONCILE": "1s",
		"SYNC_EVERY": "20s", "SYNC_OVERLAP": "1m", "SYNC_PAUSE": "5s",
	}
	var env []string
	for name, value := range set {
		env = append(env, prefix+name+"="+value)
	}
	return env
}

// row is a charge or refund of a simulator's ledger.
type row struct {
	ID, Reference, Status, Currency string
	Amount, Captured                int64
	Manual                          bool
}

type account struct {
	row
	Refunds []row
}

// ledger is the ground truth: what the provider did.
func (s *sim) ledger(ctx context.Context) (list []account, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.control+"/_sim/ledger", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: the ledger answers %s", s.name, res.Status)
	}
	err = json.NewDecoder(res.Body).Decode(&list)
	return list, err
}
