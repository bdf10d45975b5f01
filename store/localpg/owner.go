package localpg

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// owner is the system user the server runs as. PostgreSQL refuses to run as root,
// so root's server runs as postgres or nobody; anybody else's as themselves.
type owner struct {
	uid, gid int
	drop     bool // we are root and have to become somebody else
}

// serverUsers in order of preference.
var serverUsers = []string{"postgres", "nobody"}

func findOwner() (*owner, error) {
	if os.Geteuid() != 0 {
		return &owner{uid: os.Getuid(), gid: os.Getgid()}, nil
	}
	for _, name := range serverUsers {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil && uid != 0 {
			return &owner{uid: uid, gid: gid, drop: true}, nil
		}
	}
	return nil, fmt.Errorf("localpg: PostgreSQL refuses to run as root and there is no user named %s or %s", serverUsers[0], serverUsers[1])
}

// give makes path the owner's.
func (o *owner) give(path string) error {
	if !o.drop {
		return nil
	}
	if err := os.Chown(path, o.uid, o.gid); err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	return nil
}

// reaches checks that the owner may pass through every directory above dir, since
// the server's own message about that ("could not access directory") helps nobody.
func (o *owner) reaches(dir string) error {
	if !o.drop {
		return nil
	}
	for d := filepath.Dir(dir); d != "/" && d != "."; d = filepath.Dir(d) {
		st, err := os.Stat(d)
		if err != nil {
			return fmt.Errorf("localpg: %w", err)
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		if ok && st.Mode().Perm()&0o001 == 0 && int(sys.Uid) != o.uid && int(sys.Gid) != o.gid {
			return fmt.Errorf("localpg: the server runs as user %d, which may not enter %s; choose another directory", o.uid, d)
		}
	}
	return nil
}

// attributes of a child process: its user, and for the server that it is told
// when we die.
func (o *owner) attributes(server bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{}
	if o.drop {
		a.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)} //nolint:gosec // ids of the system's own user list
	}
	if server {
		// A group of its own: Ctrl-C in the terminal reaches us, and we stop it in order.
		a.Setpgid = true
		dieWithParent(a)
	}
	return a
}
