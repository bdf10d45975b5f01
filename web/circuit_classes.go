package web

import (
	"slices"

	"fusebox/provider"
)

// classesOf are the operation classes of a provider's circuits, in screen order: those of
// every provider, and what its adapter declares beside them.
func (c Config) classesOf(name string) []string {
	if c.Registry == nil {
		return circuitClasses
	}
	if a, ok := c.Registry.Get(name); ok && a.Capabilities().TokenCircuit {
		return append(slices.Clone(circuitClasses), provider.ClassToken)
	}
	return circuitClasses
}
