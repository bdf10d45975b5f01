package provider

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kinds maps an adapter kind to its constructor. cmd holds the one map; adding a
// provider is a folder with an adapter and a line in it.
type Kinds map[string]func(Settings) (Adapter, error)

// Build validates the settings and constructs an adapter for each. The error names
// the provider and the setting.
func (k Kinds) Build(settings []Settings) (*Registry, error) {
	var errs []error
	var adapters []Adapter
	seen := map[string]bool{}
	for _, s := range settings {
		a, err := k.build(s.WithDefaults(), seen)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		adapters = append(adapters, a)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return NewRegistry(adapters...), nil
}

func (k Kinds) build(s Settings, seen map[string]bool) (Adapter, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if seen[s.Name] {
		return nil, fmt.Errorf("provider %q: %w", s.Name, &FieldError{Field: "name", Reason: "is configured twice"})
	}
	seen[s.Name] = true
	construct, ok := k[s.Kind]
	if !ok {
		return nil, fmt.Errorf("provider %q: %w", s.Name, &FieldError{Field: "kind", Reason: "unknown; known are " + strings.Join(k.names(), ", ")})
	}
	return construct(s)
}

func (k Kinds) names() []string {
	names := make([]string, 0, len(k))
	for n := range k {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
