package views

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Pages of people and keys are admins' alone, so only they are led there.
func TestAuditTargetsLeadAdminsToPeopleAndKeys(t *testing.T) {
	t.Parallel()
	const id = "01900000-0000-7000-8000-000000000001"
	for target, want := range map[string]string{"user:" + id: "/settings/users/" + id, "apikey:" + id: "/settings/keys#key-" + id,
		"user:unknown": "", "user:../x": "", "payment:" + id: "/payments/" + id} {
		require.Equal(t, want, auditTargetPath(target, "admin"), target)
	}
	require.Empty(t, auditTargetPath("user:"+id, "operator"))
	require.Equal(t, "/payments/"+id, auditTargetPath("payment:"+id, "support"))
}
