package paypal

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"fusebox/provider"
)

const (
	certPath  = "/v1/notifications/certs/"
	maxCert   = 64 << 10 // bytes of a certificate with its chain
	maxCerts  = 16       // certificates kept
	certLife  = 24 * time.Hour
	certRetry = 10 * time.Second // after one that could not be fetched
	minRSA    = 2048
)

// certHosts are where PayPal keeps its certificates. The URL comes with the delivery, so
// nothing else is asked but the configured API itself.
var certHosts = []string{"api.paypal.com", "api-m.paypal.com", "api.sandbox.paypal.com", "api-m.sandbox.paypal.com"}

// certNames are who signs.
var certNames = []string{"messageverificationcerts.paypal.com", "messageverificationcerts.sandbox.paypal.com"}

var (
	// errUnreachable: nothing is known about the certificate; ask again later.
	errUnreachable = errors.New("the certificate could not be fetched")
	errCertURL     = errors.New("the certificate is not at PayPal's")
	errCert        = errors.New("not a certificate of PayPal's")
)

// certs fetches, checks and keeps the certificates deliveries are signed with.
type certs struct {
	client *http.Client
	base   *url.URL // of the configured API
	roots  *x509.CertPool

	mu      sync.Mutex
	kept    map[string]*certEntry
	fetches []time.Time // of the last second, see allowed
}

// certEntry is one certificate, or why there is none. Whoever is first fetches it, the
// others wait for the entry's lock.
type certEntry struct {
	mu    sync.Mutex
	key   *rsa.PublicKey
	err   error
	until time.Time // when to fetch again
}

func newCerts(s provider.Settings, o Options) *certs {
	c := &certs{kept: map[string]*certEntry{}}
	c.base, _ = url.Parse(s.BaseURL) // validated
	transport := &http.Transport{TLSClientConfig: o.TLS, MaxResponseHeaderBytes: maxCert, IdleConnTimeout: provider.DefaultIdleTimeout}
	if o.TLS != nil {
		c.roots = o.TLS.RootCAs
	}
	c.client = &http.Client{
		Transport: transport, Timeout: s.AnswerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

func (c *certs) close() { c.client.CloseIdleConnections() }

// key returns the key of the certificate at a URL.
func (c *certs) key(certURL string, now time.Time) (*rsa.PublicKey, error) {
	if !c.trusted(certURL) {
		return nil, errCertURL
	}
	e, err := c.entry(certURL, now)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Before(e.until) {
		return e.key, e.err
	}
	if !c.allowed(now) {
		return nil, errUnreachable
	}
	e.key, e.until, e.err = c.fetch(certURL, now)
	return e.key, e.err
}

// trusted reports whether a URL is one of PayPal's certificates, or of the configured API.
func (c *certs) trusted(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return false
	}
	name, ok := strings.CutPrefix(u.EscapedPath(), certPath)
	if !ok || !pathSafe(name) {
		return false
	}
	own := u.Scheme == c.base.Scheme && u.Host == c.base.Host
	return own || u.Scheme == "https" && slices.Contains(certHosts, u.Host)
}

// entry finds or makes a place for a certificate. A full house loses what is out of date;
// strangers' URLs must not push out the certificate in use.
func (c *certs) entry(certURL string, now time.Time) (*certEntry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.kept[certURL]; ok {
		return e, nil
	}
	if len(c.kept) >= maxCerts {
		for name, e := range c.kept {
			if e.mu.TryLock() {
				if e.key == nil || !now.Before(e.until) {
					delete(c.kept, name)
				}
				e.mu.Unlock()
			}
		}
	}
	if len(c.kept) >= maxCerts {
		return nil, errUnreachable
	}
	e := &certEntry{}
	c.kept[certURL] = e
	return e, nil
}

// allowed lets a few fetches a second through: anybody can send a delivery that names a
// certificate.
func (c *certs) allowed(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetches = slices.DeleteFunc(c.fetches, func(at time.Time) bool { return now.Sub(at) >= time.Second || at.After(now) })
	if len(c.fetches) >= 5 {
		return false
	}
	c.fetches = append(c.fetches, now)
	return true
}

// fetch gets and checks a certificate, and says how long the result holds.
func (c *certs) fetch(certURL string, now time.Time) (*rsa.PublicKey, time.Time, error) {
	body, status, err := c.get(certURL)
	switch {
	case err != nil || status >= 500 || status == http.StatusTooManyRequests:
		return nil, now.Add(certRetry), errUnreachable
	case status != http.StatusOK:
		return nil, now.Add(certRetry), fmt.Errorf("%w: status %d", errCert, status)
	}
	leaf, err := c.check(body, now)
	if err != nil {
		return nil, now.Add(certRetry), err
	}
	until := now.Add(certLife)
	if leaf.NotAfter.Before(until) {
		until = leaf.NotAfter
	}
	return leaf.PublicKey.(*rsa.PublicKey), until, nil //nolint:forcetypeassert // check has seen to it
}

func (c *certs) get(certURL string) (body []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.client.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, certURL, nil)
	if err != nil {
		return nil, 0, err
	}
	res, err := c.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(res.Body, maxCert))
	return body, res.StatusCode, err
}

// check reads a certificate with its chain: it has to lead to a root of ours and belong
// to PayPal by name.
func (c *certs) check(body []byte, now time.Time) (*x509.Certificate, error) {
	var chain []*x509.Certificate
	for block, rest := pem.Decode(body); block != nil && len(chain) < 10; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			chain = append(chain, cert)
		}
	}
	if len(chain) == 0 {
		return nil, errCert
	}
	leaf, between := chain[0], x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: c.roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCert, err)
	}
	named := slices.Contains(certNames, leaf.Subject.CommonName) ||
		slices.ContainsFunc(leaf.DNSNames, func(n string) bool { return slices.Contains(certNames, n) })
	if key, ok := leaf.PublicKey.(*rsa.PublicKey); !named || !ok || key.N.BitLen() < minRSA {
		return nil, errCert
	}
	return leaf, nil
}
