package breaker

import (
	"crypto/sha1" // Redis names scripts by their SHA-1
	_ "embed"
	"encoding/hex"
)

var (
	//go:embed lua/head.lua
	luaHead string
	//go:embed lua/common.lua
	luaCommon string
	//go:embed lua/calls_fast.lua
	luaCallsFast string
	//go:embed lua/calls_permit.lua
	luaCallsPermit string
	//go:embed lua/calls_report.lua
	luaCallsReport string
	//go:embed lua/calls.lua
	luaCalls string
	//go:embed lua/answer.lua
	luaAnswer string
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

// scripts are the operations: calls for permits and reports, a look, a person's change.
type scripts struct {
	head                     string
	calls, snapshot, operate script
}

// newScripts composes them. The common case of calls stands before everything it does
// not need: defining Lua functions costs more than the case itself.
func newScripts(head string) scripts {
	return scripts{
		head:     head,
		calls:    newScript(head + luaCallsFast + luaCommon + luaCallsPermit + luaCallsReport + luaCalls),
		snapshot: newScript(head + luaCommon + luaAnswer + luaSnapshot),
		operate:  newScript(head + luaCommon + luaAnswer + luaOperate),
	}
}
