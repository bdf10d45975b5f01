package provider

import "testing"

// answers are what providers say to a charge, as they are redacted by the million.
var answers = map[string]string{
	"charge": `{"id":"pay_8f1d0c5b7a3e94d2c6b1f0a7","reference":"019ad5c1-7c2e-7d3a-9f10-2b4c6d8e0f12","status":"succeeded","amount":4900,` +
		`"currency":"EUR","created_at":"2026-03-02T15:02:11.123456Z","idempotency_key":"fbx_019ad5c1-7c2e-7d3a-9f10-2b4c6d8e0f12_1",` +
		`"order_ref":"bench-000123","totals":{"captured":4900,"refunded":0}}`,
	"digits": `{"id":"pay_1","reference":"2026-03-02 15:02 000123-1","status":"succeeded","amount":4900,"currency":"EUR","charge":1234567890123456}`,
	"secret": `{"id":"pay_1","client_secret":"pi_1_secret_abcdefgh","status":"succeeded","amount":4900,"currency":"EUR"}`,
}

func BenchmarkRedact(b *testing.B) {
	for _, name := range []string{"charge", "digits", "secret"} {
		b.Run(name, func(b *testing.B) {
			body := []byte(answers[name])
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				Redact(body)
			}
		})
	}
}

func BenchmarkRedactText(b *testing.B) {
	for name, s := range map[string]string{"type": "application/json", "id": "req_8f1d0c5b7a3e94d2c6b1f0a7", "none": ""} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				RedactText(s)
			}
		})
	}
}
