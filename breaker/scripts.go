package breaker

import (
	"crypto/sha1" // Redis names scripts by their SHA-1
	_ "embed"
	"encoding/hex"
)

var (
	//go:embed lua/common.lua
	luaCommon string
	//go:embed lua/permit.lua
	luaPermit string
	//go:embed lua/report.lua
	luaReport string
	//go:embed lua/snapshot.lua
	luaSnapshot string
	//go:embed lua/operate.lua
	luaOperate string
)

// script is one Lua script and the name Redis caches it under.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}

// scripts are the four operations, each with the shared head.
type scripts struct{ permit, report, snapshot, operate script }

func newScripts(common string) scripts {
	return scripts{
		permit:   newScript(common + luaPermit),
		report:   newScript(common + luaReport),
		snapshot: newScript(common + luaSnapshot),
		operate:  newScript(common + luaOperate),
	}
}
