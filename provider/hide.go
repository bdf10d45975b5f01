package provider

import "bytes"

// shortestSecret is the length from which a credential is looked for in an answer: a
// shorter one could be part of any word.
const shortestSecret = 8

// ownSecrets are the credentials of a provider's settings as they would stand in an
// answer that repeats our request.
func ownSecrets(s Settings) [][]byte {
	var out [][]byte
	for _, secret := range append([]string{s.APIKey}, s.WebhookSecrets...) {
		if len(secret) >= shortestSecret {
			out = append(out, []byte(secret))
		}
	}
	return out
}

// hide takes our own credentials out of an answer before anybody reads it. Patterns (see
// Redact) only know credentials that look like some; these are known to the letter.
func (c *Caller) hide(answer []byte) []byte {
	for _, secret := range c.secrets {
		if bytes.Contains(answer, secret) {
			answer = bytes.ReplaceAll(answer, secret, []byte(Redacted))
		}
	}
	return answer
}
