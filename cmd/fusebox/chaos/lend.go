package chaos

import "os/exec"

// StartChild starts cmd so that it ends with this process, even when that is killed (on
// Linux). done closes when it has ended; how is in cmd.ProcessState.
func StartChild(cmd *exec.Cmd) (done <-chan struct{}, err error) {
	c, err := startChild(cmd)
	if err != nil {
		return nil, err
	}
	return c.done, nil
}

// Proxy is a way between two parts that can be made silent, for tests of other packages.
type Proxy struct {
	Addr string // host:port where it listens
	mesh *mesh
}

// NewProxy opens a way to upstream (host:port). Close ends it.
func NewProxy(upstream string) (*Proxy, error) {
	m := newMesh()
	addr, err := m.add(proxyName, upstream)
	if err != nil {
		return nil, err
	}
	return &Proxy{Addr: addr, mesh: m}, nil
}

const proxyName = "way"

// Silence lets nothing through any more, as a machine that vanished: connections stay
// open, new ones are accepted, and nobody answers.
func (p *Proxy) Silence() error {
	for _, direction := range []string{"upstream", "downstream"} {
		if err := p.mesh.disturb(proxyName, "timeout", direction, map[string]int64{"timeout": 0}); err != nil {
			return err
		}
	}
	return nil
}

// Close cuts every connection and refuses new ones.
func (p *Proxy) Close() { p.mesh.close() }
