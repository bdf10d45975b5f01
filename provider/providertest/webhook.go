package providertest

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

func (h Harness) charge() provider.Object {
	return provider.Object{ID: "pay_1", Reference: "p1", OperationKey: "k1", Outcome: provider.Succeeded, Money: h.Money, CreatedAt: time.Now()}
}

// BodySigner is a Fake of a provider whose signature stands in the body, over some of its
// members, and not in a header over all of it.
type BodySigner interface {
	// Tampered returns a delivery once for every signed member, with that one changed.
	Tampered(raw []byte) [][]byte
	// Unsigned returns a delivery without its signature.
	Unsigned(raw []byte) []byte
}

func testSignature(t *testing.T, h Harness) {
	a, fake := h.New(t)
	if !a.Capabilities().Webhooks {
		return
	}
	now := time.Now()
	header, raw := fake.Event("evt_1", h.charge(), now)
	v := a.Verify(header, raw, now)
	require.Equal(t, provider.Verification{Verdict: provider.SignatureValid, SecretLabel: "1"}, v)

	if s, ok := fake.(BodySigner); ok {
		tampered := s.Tampered(raw)
		require.NotEmpty(t, tampered)
		for _, other := range tampered {
			require.Equal(t, provider.SignatureInvalid, a.Verify(header, other, now).Verdict, "%s", other)
		}
		require.Equal(t, provider.Verification{Verdict: provider.SignatureMissing}, a.Verify(header, s.Unsigned(raw), now))
		return
	}

	tampered := bytes.Clone(raw)
	tampered[len(tampered)/2] ^= 1
	require.Equal(t, provider.SignatureInvalid, a.Verify(header, tampered, now).Verdict)
	require.Equal(t, provider.SignatureInvalid, a.Verify(header, append(bytes.Clone(raw), ' '), now).Verdict, "the exact raw bytes count")
	require.Equal(t, provider.SignatureMissing, a.Verify(http.Header{}, raw, now).Verdict)
	require.Empty(t, a.Verify(http.Header{}, raw, now).SecretLabel)
}

func testEvents(t *testing.T, h Harness) {
	a, fake := h.New(t)
	if !a.Capabilities().Webhooks {
		return
	}
	now := time.Now()
	_, raw := fake.Event("evt_1", h.charge(), now)
	first, err := a.Parse(raw)
	require.NoError(t, err)
	require.Len(t, first, 1)
	e := first[0]
	require.NotEmpty(t, e.Key)
	require.True(t, e.Interesting)
	require.Equal(t, "pay_1", e.Object.ID)
	require.Equal(t, "p1", e.Object.Reference)
	require.Equal(t, provider.Succeeded, e.Object.Outcome)
	require.Equal(t, h.Money, e.Object.Money)

	again, err := a.Parse(raw)
	require.NoError(t, err)
	require.Equal(t, first, again, "a redelivery is the same event")

	_, raw = fake.Event("evt_2", h.charge(), now)
	second, err := a.Parse(raw)
	require.NoError(t, err)
	require.NotEqual(t, e.Key, second[0].Key, "another event about the same charge is another event")

	_, raw = fake.Unrelated("evt_3", now)
	other, err := a.Parse(raw)
	require.NoError(t, err)
	require.Len(t, other, 1)
	require.False(t, other[0].Interesting)
	require.NotEmpty(t, other[0].Key)

	for _, bad := range []string{"", "null", "[]", "<html>", `{"id":`, "\x00"} {
		_, err := a.Parse([]byte(bad))
		require.Error(t, err, "%q", bad)
	}
}
