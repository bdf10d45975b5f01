package storetest_test

import (
	"testing"

	"fusebox/store/storetest"
)

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		storetest.New(b)
	}
}
