package main

import (
	"fmt"
	"sort"

	"fusebox/provider"
	"fusebox/provider/gateway"
)

// kinds is where an adapter is registered: one line per kind of provider.
var kinds = map[string]func(provider.Settings) (provider.Adapter, error){
	"gateway": func(s provider.Settings) (provider.Adapter, error) { return gateway.New(s, gateway.Options{}) },
}

func kindNames() []string {
	var names []string
	for k := range kinds {
		names = append(names, k)
	}
	sort.Strings(names)
	return names
}

// newRegistry builds the configured adapters.
func newRegistry(ps []provider.Settings) (*provider.Registry, error) {
	var adapters []provider.Adapter
	for _, p := range ps {
		build, ok := kinds[p.Kind]
		if !ok {
			return nil, fmt.Errorf("%sKIND: %q is not registered", providerPrefix(p.Name), p.Kind)
		}
		a, err := build(p)
		if err != nil {
			return nil, settingName(p.Name, err)
		}
		adapters = append(adapters, a)
	}
	return provider.NewRegistry(adapters...), nil
}
