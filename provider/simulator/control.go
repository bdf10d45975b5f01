package simulator

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// controlHandler serves the control API. It has no sign-in and is meant for a
// private address; requests that a browser sends across origins are refused.
func (s *Server) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_sim/faults", s.showFaults)
	mux.HandleFunc("PUT /_sim/faults", s.putFaults)
	mux.HandleFunc("GET /_sim/catalogue", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, catalogue) })
	mux.HandleFunc("GET /_sim/ledger", s.showLedger)
	mux.HandleFunc("GET /_sim/stats", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.Stats()) })
	mux.HandleFunc("POST /_sim/reset", s.postReset)
	mux.HandleFunc("PUT /_sim/webhook", s.putWebhook)
	mux.HandleFunc("POST /_sim/payments", s.postManual)
	mux.HandleFunc("POST /_sim/payments/{id}/complete", s.postComplete)
	mux.HandleFunc("POST /_sim/payments/{id}/events", s.postEvent)
	mux.HandleFunc("POST /_sim/payments/{id}/refunds", s.postManualRefund)
	mux.HandleFunc("POST /_sim/payments/{id}/disputes", s.postDispute)
	mux.HandleFunc("POST /_sim/refunds/{id}/complete", s.postComplete)
	mux.HandleFunc("POST /_sim/refunds/{id}/events", s.postEvent)
	mux.HandleFunc("POST /_sim/disputes/{id}/decide", s.postDecideDispute)
	return http.NewCrossOriginProtection().Handler(mux)
}

// faultsView is the state of the faults as GET /_sim/faults shows it.
type faultsView struct {
	Name string `json:"name"`
	Faults
	OutageUntil *time.Time `json:"outage_until"` // null: until it is switched
}

func (s *Server) showFaults(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	v := faultsView{Name: s.opts.Name, Faults: s.faults.Clone()}
	if !s.until.IsZero() {
		until := s.until.UTC()
		v.OutageUntil = &until
	}
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, v)
}

// faultsPatch is the body of PUT /_sim/faults. What is absent stays as it is; a
// preset is taken first and replaces all rates; a rate of 0 ends a fault.
type faultsPatch struct {
	Preset    string
	Rates     map[Fault]float64
	Outage    *Outage
	OutageFor time.Duration // 0: until it is switched
	Timing    map[string]string
}

// readPatch decodes a patch, naming the field of whatever is wrong with it.
func readPatch(r io.Reader) (faultsPatch, error) {
	var p faultsPatch
	var lasting string
	err := readFields(r, map[string]any{
		"preset": &p.Preset, "rates": &p.Rates, "outage": &p.Outage,
		"outage_for": &lasting, "timing": &p.Timing,
	})
	if err != nil || lasting == "" {
		return p, err
	}
	d, err := time.ParseDuration(lasting)
	if err != nil || d <= 0 {
		return p, &FieldError{"outage_for", `must be a positive duration such as "20s"`}
	}
	if p.Outage == nil {
		return p, &FieldError{"outage_for", "needs an outage"}
	}
	p.OutageFor = d
	return p, nil
}

// readFields decodes a JSON object field by field into the given targets.
func readFields(r io.Reader, targets map[string]any) error {
	var raw map[string]json.RawMessage
	if err := json.NewDecoder(io.LimitReader(r, maxBody)).Decode(&raw); err != nil {
		return &FieldError{"body", "must be a JSON object"}
	}
	for name, value := range raw {
		target, ok := targets[name]
		if !ok {
			return &FieldError{name, "unknown field"}
		}
		if err := json.Unmarshal(value, target); err != nil {
			return &FieldError{name, "has the wrong type"}
		}
	}
	return nil
}

// putFaults changes faults while the simulator runs, all of the patch or nothing.
func (s *Server) putFaults(w http.ResponseWriter, r *http.Request) {
	p, err := readPatch(r.Body)
	if err != nil {
		refuse(w, err)
		return
	}
	var lasting *time.Duration
	if p.Outage != nil {
		lasting = &p.OutageFor
	}
	if err := s.change(lasting, p.applyTo); err != nil {
		refuse(w, err)
		return
	}
	s.showFaults(w, r)
}

func (p faultsPatch) applyTo(f *Faults) error {
	if p.Preset != "" {
		preset, ok := Preset(p.Preset)
		if !ok {
			return &FieldError{"preset", "must be healthy, settling or every_fault"}
		}
		f.Rates = preset.Rates
	}
	for name, rate := range p.Rates {
		f.Rates[name] = rate
	}
	if p.Outage != nil {
		f.Outage = *p.Outage
	}
	for name, text := range p.Timing {
		if err := f.Timing.set(name, text); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) showLedger(w http.ResponseWriter, _ *http.Request) {
	accounts, err := s.Accounts()
	if err != nil {
		refuse(w, err)
		return
	}
	if accounts == nil {
		accounts = []Account{}
	}
	writeJSON(w, http.StatusOK, accounts)
}

func (s *Server) postReset(w http.ResponseWriter, _ *http.Request) {
	if err := s.Reset(); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// putWebhook changes where events go: {"url": …, "secrets": […]}.
func (s *Server) putWebhook(w http.ResponseWriter, r *http.Request) {
	var to string
	var secrets []string
	err := readFields(r.Body, map[string]any{"url": &to, "secrets": &secrets})
	if err == nil {
		err = s.SetWebhook(to, secrets...)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// postComplete decides a waiting charge: {"status": …}.
func (s *Server) postComplete(w http.ResponseWriter, r *http.Request) {
	var status string
	err := readFields(r.Body, map[string]any{"status": &status})
	if err != nil {
		refuse(w, err)
		return
	}
	c, err := s.Complete(r.PathValue("id"), status)
	if err != nil {
		refuse(w, err)
		return
	}
	writeJSON(w, http.StatusOK, c)
}

// refuse answers a control request that was not carried out.
func refuse(w http.ResponseWriter, err error) {
	body := struct {
		Code    string        `json:"code"`
		Message string        `json:"message"`
		Errors  []*FieldError `json:"errors,omitempty"`
	}{Code: "internal", Message: err.Error()}
	status := http.StatusInternalServerError
	if field, ok := errors.AsType[*FieldError](err); ok {
		status, body.Code, body.Errors = http.StatusBadRequest, "invalid_request", []*FieldError{field}
	}
	switch {
	case errors.Is(err, errNoCharge), errors.Is(err, errNoDispute):
		status, body.Code = http.StatusNotFound, "not_found"
	case errors.Is(err, errDecided):
		status, body.Code = http.StatusConflict, "already_decided"
	case errors.Is(err, errClosed):
		status, body.Code = http.StatusServiceUnavailable, "closing"
	}
	writeJSON(w, status, map[string]any{"error": body})
}
