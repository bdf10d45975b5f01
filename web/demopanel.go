package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"fusebox/views"
)

// faultPatch is what PUT /_sim/faults of a simulator takes: preset first, then rates
// and outage.
type faultPatch struct {
	Preset string             `json:"preset"`
	Rates  map[string]float64 `json:"rates,omitempty"`
	Outage string             `json:"outage"`
}

// faultState is what GET /_sim/faults answers.
type faultState struct {
	Rates  map[string]float64 `json:"rates"`
	Outage string             `json:"outage"`
}

// rate is one fault on top of a healthy provider.
func rate(fault string, share float64) faultPatch {
	return faultPatch{Preset: "healthy", Rates: map[string]float64{fault: share}, Outage: "none"}
}

// faults are the panel's buttons, by the value they send.
var faults = map[string]faultPatch{
	"heal":                {Preset: "healthy", Outage: "none"},
	"refuse":              {Preset: "healthy", Outage: "refuse"},
	"black_hole":          {Preset: "healthy", Outage: "black_hole"},
	"error":               {Preset: "healthy", Outage: "error"},
	"charges":             {Preset: "healthy", Outage: "charges"},
	"settling":            {Preset: "settling", Outage: "none"},
	"charged_then_silent": rate("charged_then_silent", 1),
	"charged_then_502":    rate("charged_then_502", 1),
	"slow":                rate("slow", 1),
	"decline":             rate("decline", 1),
	"webhook_missing":     rate("webhook_missing", 1),
	"lookup_error":        rate("lookup_error", 1),
}

// faultGroups arrange the buttons.
var faultGroups = []views.FaultGroup{
	{Label: "demo.group.whole", Buttons: []views.FaultButton{{Value: "heal", Label: "demo.act.heal", Kind: "primary"},
		{Value: "refuse", Label: "demo.act.refuse"}, {Value: "black_hole", Label: "demo.act.black_hole"}, {Value: "error", Label: "demo.act.error"}}},
	{Label: "demo.group.charges", Buttons: []views.FaultButton{{Value: "charged_then_silent", Label: "demo.act.charged_then_silent"},
		{Value: "charged_then_502", Label: "demo.act.charged_then_502"}, {Value: "slow", Label: "demo.act.slow"},
		{Value: "decline", Label: "demo.act.decline"}, {Value: "charges", Label: "demo.act.charges"}, {Value: "settling", Label: "demo.act.settling"}}},
	{Label: "demo.group.rest", Buttons: []views.FaultButton{{Value: "webhook_missing", Label: "demo.act.webhook_missing"},
		{Value: "lookup_error", Label: "demo.act.lookup_error"}}},
}

// faultsPage shows what each simulator does wrong now, asked of all at once.
func (s *Server) faultsPage(c echo.Context) error {
	ctx := s.viewContext(c)
	names := s.simulatorNames()
	sims := make([]views.SimulatorView, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { sims[i] = s.simulator(ctx, name) })
	}
	wg.Wait()
	return s.render(c, http.StatusOK, views.Demo(views.DemoView{Page: s.page(c, "faults", views.T(ctx, "demo.title")),
		Simulators: sims, Groups: faultGroups}))
}

// simulatorNames lists the simulated providers in configuration order.
func (s *Server) simulatorNames() []string {
	var names []string
	for _, name := range s.providerNames() {
		if s.cfg.Demo.Simulators[name] != "" {
			names = append(names, name)
		}
	}
	return names
}

func (s *Server) simulator(ctx context.Context, name string) views.SimulatorView {
	v := views.SimulatorView{Provider: name}
	state, err := s.callSimulator(ctx, http.MethodGet, name, nil)
	if err != nil {
		v.Trouble = err.Error()
		return v
	}
	v.Outage = state.Outage
	for fault, share := range state.Rates {
		v.Rates = append(v.Rates, views.FaultRate{Name: fault, Rate: share})
	}
	slices.SortFunc(v.Rates, func(a, b views.FaultRate) int { return strings.Compare(a.Name, b.Name) })
	return v
}

// postFault switches one simulator.
func (s *Server) postFault(c echo.Context) error {
	name, fault := c.FormValue("provider"), c.FormValue("fault")
	if s.cfg.Demo.Simulators[name] == "" {
		return invalid("provider", "is not simulated")
	}
	patch, ok := faults[fault]
	if !ok {
		return invalid("fault", "is not one of the choices")
	}
	ctx := s.viewContext(c)
	if _, err := s.callSimulator(ctx, http.MethodPut, name, patch); err != nil {
		s.flash(c, "error", views.T(ctx, "demo.unreachable", "Why", err.Error()))
	} else {
		s.flash(c, "ok", views.T(ctx, "demo.done", "Provider", name))
	}
	return c.Redirect(http.StatusSeeOther, views.PathFaults)
}

// callSimulator talks to a simulator's control API. The address comes from the demo's
// own configuration, never from a request.
func (s *Server) callSimulator(ctx context.Context, method, name string, body any) (faultState, error) {
	var state faultState
	var payload io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return state, err
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(s.cfg.Demo.Simulators[name], "/")+"/_sim/faults", payload)
	if err != nil {
		return state, err
	}
	req.Header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	res, err := s.b.simulators.Do(req)
	if err != nil {
		return state, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 {
		return state, fmt.Errorf("HTTP %d", res.StatusCode)
	}
	if method == http.MethodGet {
		err = json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&state)
	}
	return state, err
}
