package web

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/breaker"
	"fusebox/store"
	"fusebox/web/circuits"
)

// operatedJSON is a circuit after an action on it.
type operatedJSON struct {
	circuits.View
	Woken int `json:"woken"` // waiting payments that were brought forward
}

// circuitProblem is a conflict with the circuit as it is now, so that a program can
// decide again without another request.
type circuitProblem struct {
	problem
	Circuit circuits.View `json:"circuit"`
}

// registerCircuitAPI adds the circuits to the API.
func (s *Server) registerCircuitAPI(v1 *echo.Group) {
	may := requireScope(store.ScopeCircuits)
	v1.GET("/circuits", s.listCircuits, may)
	v1.GET("/circuits/:provider/:class", s.getCircuit, may)
	for _, a := range circuits.Actions {
		v1.POST("/circuits/:provider/:class/"+a.Verb(), func(c echo.Context) error { return s.postCircuit(c, a) }, may)
	}
}

// listCircuits answers with every circuit, in the order of the configuration.
func (s *Server) listCircuits(c echo.Context) error {
	list := struct {
		Data []circuits.View `json:"data"`
	}{[]circuits.View{}}
	for _, p := range s.cfg.Providers {
		for _, class := range s.cfg.classesOf(p.Name) {
			v, err := s.circuitNow(c, breaker.Key{Name: p.Name, Class: class})
			if err != nil {
				return err
			}
			list.Data = append(list.Data, v)
		}
	}
	return answer(c, http.StatusOK, list)
}

// getCircuit answers with one circuit.
func (s *Server) getCircuit(c echo.Context) error {
	k, _, err := s.circuitOf(c)
	if err != nil {
		return err
	}
	v, err := s.circuitNow(c, k)
	if err != nil {
		return err
	}
	return answer(c, http.StatusOK, v)
}

func (s *Server) circuitNow(c echo.Context, k breaker.Key) (circuits.View, error) {
	snap, err := s.cfg.Breaker.Snapshot(c.Request().Context(), k)
	if err != nil {
		return circuits.View{}, fmt.Errorf("%w: %w", breaker.ErrUnavailable, err)
	}
	return circuits.NewView(snap), nil
}

// postCircuit does an action on a circuit, once per idempotency key.
func (s *Server) postCircuit(c echo.Context, a circuits.Action) error {
	k, _, err := s.circuitOf(c)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(c)
	if err != nil {
		return err
	}
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	r := circuits.Request{Key: k, Action: a, ActionID: circuitActionID(client(c).ID, key), By: s.actor(c)}
	if err := readCircuitRequest(body, &r); err != nil {
		return err
	}
	res, err := s.operations().Do(c.Request().Context(), r)
	if errors.Is(err, breaker.ErrEpoch) || errors.Is(err, breaker.ErrNotOpen) {
		return s.circuitProblem(c, res.After, err)
	}
	if err != nil {
		return err
	}
	if res.Repeated {
		c.Response().Header().Set("Idempotent-Replayed", "true")
	}
	s.circuitsMoved()
	return answer(c, http.StatusOK, operatedJSON{circuits.NewView(res.After), res.Woken})
}

// circuitActionID is the one-time id of a client's idempotency key: the same key of
// another client, or for a payment, is something else.
func circuitActionID(client uuid.UUID, key string) uuid.UUID {
	return uuid.NewSHA1(client, []byte("circuit "+key))
}

// readCircuitRequest reads an action's content, or says all that is wrong with it.
func readCircuitRequest(body *jsonObject, r *circuits.Request) error {
	f := newForm(body)
	r.Epoch, r.Reason = f.text("epoch", 1, maxKey), f.text("reason", 1, circuits.MaxReason)
	if text := f.text("for", 0, maxKey); text != "" {
		var err error
		if r.For, err = time.ParseDuration(text); err != nil || r.For <= 0 {
			f.refuse("for", "must be a duration, such as 90m or 4h")
		}
	}
	refused := map[string]bool{}
	for _, e := range *f.errors {
		refused[e.Field] = true
	}
	for _, p := range r.Problems() {
		if !refused[p.Field] {
			f.refuse(p.Field, p.Reason)
		}
	}
	return f.finish()
}

// circuitProblem answers 409 with what is now, and who made it so if a person did.
func (s *Server) circuitProblem(c echo.Context, now breaker.Snapshot, err error) error {
	p := problemOf(err)
	if last, ok, lookErr := s.operations().LastChange(c.Request().Context(), now); lookErr == nil && ok {
		p.Detail = fmt.Sprintf("%s by %s came first, at %s. Nothing was changed.",
			last.Action, or(last.ActorName, last.Actor), last.At.UTC().Format("15:04:05 UTC"))
	}
	c.Response().Header().Set(echo.HeaderContentType, "application/problem+json")
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	c.Response().WriteHeader(p.Status)
	return c.Echo().JSONSerializer.Serialize(c, circuitProblem{p, circuits.NewView(now)}, "")
}
