package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// poster posts over one connection that it keeps. It shares the processor with what it
// measures, and is therefore no more than that: net/http's client takes two goroutines and
// several times as long for a request.
type poster struct {
	conn    net.Conn
	answers *bufio.Reader
	head    []byte // of every request, without the headers of its own
	buf     []byte
}

// postLimit is how long a request may take.
const postLimit = 30 * time.Second

// newPoster connects to an http address.
func newPoster(ctx context.Context, address string) (*poster, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address to post to is not valid")
	}
	conn, err := (&net.Dialer{Timeout: postLimit}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	head := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\nAccept: */*\r\nContent-Type: application/json\r\n", u.EscapedPath(), u.Host)
	return &poster{conn: conn, answers: bufio.NewReader(conn), head: head}, nil
}

func (p *poster) close() { _ = p.conn.Close() }

// post sends a body with further headers, each a name and its value; anything but a 2xx is
// an error.
func (p *poster) post(body []byte, headers ...string) error {
	if err := p.conn.SetDeadline(time.Now().Add(postLimit)); err != nil {
		return err
	}
	p.buf = append(p.buf[:0], p.head...)
	for i := 0; i+1 < len(headers); i += 2 {
		p.buf = append(append(append(append(p.buf, headers[i]...), ": "...), headers[i+1]...), "\r\n"...)
	}
	p.buf = append(p.buf, "Content-Length: "...)
	p.buf = append(append(strconv.AppendInt(p.buf, int64(len(body)), 10), "\r\n\r\n"...), body...)
	if _, err := p.conn.Write(p.buf); err != nil {
		return err
	}
	res, err := http.ReadResponse(p.answers, nil)
	if err != nil {
		return err
	}
	said, err := io.ReadAll(res.Body)
	_ = res.Body.Close() // it was read
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("a request was answered %s: %s", res.Status, said[:min(len(said), 4096)])
	}
	if err == nil && res.Close {
		err = errors.New("the server closed the connection")
	}
	return err
}
