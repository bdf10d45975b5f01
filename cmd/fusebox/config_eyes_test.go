package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfigReadsTheLimitsOfFourEyes(t *testing.T) {
	t.Parallel()
	c, err := loadConfig(goodEnv("FUSEBOX_FOUR_EYES=EUR=100000, JPY=15000000,*=0"))
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"EUR": 100_000, "JPY": 15_000_000, "*": 0}, c.fourEyes)
	c, err = loadConfig(goodEnv())
	require.NoError(t, err)
	require.Empty(t, c.fourEyes)
	for _, bad := range []string{"EUR", "EUR=1.5", "EUR=-1", "eur=1", "XXQ=1", "EUR=1,EUR=2", "*=9999999999999", ","} {
		_, err := loadConfig(goodEnv("FUSEBOX_FOUR_EYES=" + bad))
		require.ErrorContains(t, err, "FUSEBOX_FOUR_EYES", bad)
	}
}
