package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// mesh is the network between the parts: one proxy per pair that can be disturbed
// without the others noticing.
type mesh struct {
	server *toxiproxy.ApiServer

	mu      sync.Mutex
	proxies map[string]*toxiproxy.Proxy
}

func newMesh() *mesh {
	// One toxic writes to a logger of its own, whatever the server's is.
	zerolog.SetGlobalLevel(zerolog.Disabled)
	return &mesh{
		server:  toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
		proxies: map[string]*toxiproxy.Proxy{},
	}
}

// add opens a way to upstream (host:port) and returns its address.
func (m *mesh) add(name, upstream string) (string, error) {
	addr, err := freeAddress()
	if err != nil {
		return "", err
	}
	p := toxiproxy.NewProxy(m.server, name, addr, upstream)
	if err := p.Start(); err != nil {
		return "", fmt.Errorf("chaos: proxy %s: %w", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proxies[name] = p
	return addr, nil
}

func (m *mesh) get(name string) (*toxiproxy.Proxy, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.proxies[name]
	if !ok {
		return nil, fmt.Errorf("chaos: no proxy %s", name)
	}
	return p, nil
}

// disturb adds a toxic to one direction: upstream is towards the server.
func (m *mesh) disturb(name, kind, direction string, attributes map[string]int64) error {
	p, err := m.get(name)
	if err != nil {
		return err
	}
	b, err := json.Marshal(map[string]any{"name": kind + "-" + direction, "type": kind, "stream": direction, "toxicity": 1, "attributes": attributes})
	if err != nil {
		return err
	}
	if _, err = p.Toxics.AddToxicJson(strings.NewReader(string(b))); err != nil {
		return fmt.Errorf("chaos: %s on %s: %w", kind, name, err)
	}
	return nil
}

// calm ends everything that disturbs a way. Connections that were made under a toxic are
// cut: some toxics cannot be taken from them.
func (m *mesh) calm(ctx context.Context, name string) error {
	p, err := m.get(name)
	if err != nil {
		return err
	}
	p.Stop()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	p.Toxics.ResetToxics(ctx)
	return p.Start()
}

// cut closes every connection and refuses new ones until calm.
func (m *mesh) cut(name string) error {
	p, err := m.get(name)
	if err == nil {
		p.Stop()
	}
	return err
}

func (m *mesh) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.proxies {
		p.Stop()
	}
}

// freeAddress finds a loopback port nobody listens on, below those the kernel gives to
// outgoing connections: it must still be free after a restart of who listens there.
func freeAddress() (string, error) {
	for range 100 {
		addr := "127.0.0.1:" + strconv.Itoa(20000+rand.IntN(12000)) //nolint:gosec // a port, no secret
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		return addr, l.Close()
	}
	return "", errPort
}
