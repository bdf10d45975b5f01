package paypal

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"math/big"
	"net/http"
	"sync"
	"time"
)

// authority is a certificate authority of the tests' own, and what it signed.
type authority struct {
	roots *x509.CertPool
	root  *x509.Certificate
	key   *rsa.PrivateKey // of the root, and for speed of every leaf too
	leaf  []byte          // PEM of the signing certificate
}

var pki = sync.OnceValue(func() authority {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	a := authority{key: key, roots: x509.NewCertPool()}
	t := certificate("Test Root")
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		panic(err)
	}
	if a.root, err = x509.ParseCertificate(der); err != nil {
		panic(err)
	}
	a.roots.AddCert(a.root)
	a.leaf = a.issue(certificate("messageverificationcerts.paypal.com"))
	return a
})

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Unix(1_500_000_000, 0), NotAfter: time.Now().AddDate(20, 0, 0),
	}
}

// issue signs a certificate and returns it as PEM.
func (a authority) issue(t *x509.Certificate) []byte {
	der, err := x509.CreateCertificate(rand.Reader, t, a.root, a.key.Public(), a.key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// sign makes the headers of a delivery.
func (f *fake) sign(raw []byte, hookID string, at time.Time) http.Header {
	stamp := at.UTC().Format(time.RFC3339)
	text := fmt.Sprintf("%s|%s|%s|%d", "b2f1-transmission", stamp, hookID, crc32.ChecksumIEEE(raw))
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(nil, pki().key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	h := http.Header{}
	h.Set("PAYPAL-TRANSMISSION-ID", "b2f1-transmission")
	h.Set("PAYPAL-TRANSMISSION-TIME", stamp)
	h.Set("PAYPAL-TRANSMISSION-SIG", base64.StdEncoding.EncodeToString(sig))
	h.Set("PAYPAL-CERT-URL", f.url+certName)
	h.Set("PAYPAL-AUTH-ALGO", "SHA256withRSA")
	return h
}

func (f *fake) cert(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	f.certs++
	fails := f.certFails
	f.mu.Unlock()
	if fails {
		page(w, http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write(pki().leaf)
}

// verify is PayPal's verify-webhook-signature. It believes everything that is about the
// event it knows by heart.
func (f *fake) verify(w http.ResponseWriter, r *http.Request) {
	if !f.known(w, r) {
		return
	}
	var body map[string]json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		fail(w, http.StatusBadRequest, "VALIDATION_ERROR", "")
		return
	}
	f.mu.Lock()
	f.verifies = append(f.verifies, body)
	fails := f.certFails
	f.mu.Unlock()
	if fails {
		fail(w, http.StatusInternalServerError, "INTERNAL_SERVICE_ERROR", "")
		return
	}
	status := "FAILURE"
	if string(body["webhook_id"]) == `"`+testHook+`"` && string(body["webhook_event"]) == verifiable {
		status = "SUCCESS"
	}
	reply(w, http.StatusOK, map[string]string{"verification_status": status})
}

// verifiable is the event the verify call knows: its white space counts.
const verifiable = `{"id": "WH-1",  "event_type":"X.<Y>"}`

type publicKey = *rsa.PublicKey

// offline is a network that is not there.
type offline struct{}

func (offline) RoundTrip(*http.Request) (*http.Response, error) { return nil, errUnreachable }
