#!/usr/bin/env bash
# sanitize: yes
# The PROXY protocol: a trusted proxy's header tells the client's address, byte by byte too, and with TLS behind it; who is
# not trusted cannot send one; one that sends none, or too slowly, is cut off and leaves nothing open; through a real HAProxy.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

is_logged() { grep "msg=request request_id=$1 client=$2 " "$work/log" >/dev/null; }
# Half a second is for those that are to be cut off: a busy machine does not answer everything within it.
http='"connections": 16384' request_timeout_ms=30000
serve() {
  configure "http={$http, \"forwarded_header\": \"proxy-protocol\", \"trusted_proxies\": [\"127.0.0.1\"], \"request_timeout_ms\": $request_timeout_ms}" \
    'log={"access": "all"}' "$@"
  launch --backend null --config "$work/config.json" --health-listen 127.0.0.1:0
  health=http://127.0.0.1:$(sed -n 's/.*msg="health and metrics are answered".* port=\([0-9]*\).*/\1/p' "$work/log")
  served() { curl -fs -o /dev/null "$health/v2/health/ready"; }
  until_true 120 served || fail "convoyd was not ready"
}

cat >"$work/ask.py" <<'PYTHON'
import socket, sys, time
port = int(sys.argv[1])
V2 = b"\r\n\r\n\0\r\nQUIT\n"
def ask(identity, header, source="127.0.0.1", pieces=False):
    with socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(source, 0)) as connection:
        data = header + f"GET /v2 HTTP/1.1\r\nHost: x\r\nX-Request-Id: {identity}\r\nX-Forwarded-For: 9.9.9.9\r\nConnection: close\r\n\r\n".encode()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answer = b""
        try:
            if pieces:
                for at in range(len(header)):
                    connection.sendall(data[at:at + 1])
                    time.sleep(0.001)
                data = data[len(header):]
            connection.sendall(data)
            while more := connection.recv(65536):
                answer += more
        except ConnectionError:
            pass
        return answer[:12]
four = V2 + b"\x21\x11\0\x0c" + socket.inet_aton("203.0.113.2") + b"\x0a\0\0\x01\x12\x67\0\x50"
good = b"HTTP/1.1 200"
PYTHON
export PYTHONPATH=$work PYTHONDONTWRITEBYTECODE=1
all_logged() { # ID=ADDRESS...
  local pair
  for pair; do until_true 10 is_logged "${pair%%=*}" "${pair#*=}" || fail "$pair: $(grep msg=request "$work/log")"; done
}

serve
"$python" - "$port" <<'PYTHON' || fail "see above"
from ask import *
assert ask("one", b"PROXY TCP4 203.0.113.1 10.0.0.1 1 2\r\n") == good
assert ask("two", four) == good
assert ask("slow", b"PROXY TCP6 2001:db8::3 ::1 1 2\r\n", pieces=True) == good
assert ask("local", V2 + b"\x20\0\0\0") == good
for bad in b"", b"PROXY TCP4 1.2.3.4\r\n", V2 + b"\x21\x11\0\x01x":
    assert ask("bad", bad) == b"", bad
assert ask("plain", b"", source="127.0.0.2") == good, "who is no proxy needs no header"
assert ask("liar", b"PROXY TCP4 203.0.113.1 10.0.0.1 1 2\r\n", source="127.0.0.2") != good, "a header of one who is not trusted"
PYTHON
all_logged one=203.0.113.1 two=203.0.113.2 slow=2001:db8::3 local=127.0.0.1 plain=127.0.0.2
! is_logged bad . || fail "a request without the header is answered"
stop

echo "As many as may wait, which say nothing or too little, and one more, are cut off; then all are free again."
request_timeout_ms=500
serve
"$python" - "$port" <<'PYTHON' || fail "see above"
from ask import *
for first in b"", b"PROXY TC":
    silent = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(257)]
    for connection in silent:
        try:
            connection.sendall(first)
        except OSError:
            pass
    begun = time.monotonic()
    for connection in silent:
        try:
            assert connection.recv(1) == b"", "it is answered"
        except ConnectionError:
            pass
        connection.close()
    assert time.monotonic() - begun < 15, "they are held"
begun = time.monotonic()
while ask("after", four) != good: # half a second may pass before a busy machine has read a header, too
    assert time.monotonic() - begun < 15, "they are not free again"
PYTHON
all_logged after=203.0.113.2
stop
request_timeout_ms=30000

echo "A loopback address in a proxy's header is one of the proxy's machine: it gives no rights here."
serve 'auth={"loopback_admin": true}' 'shared_memory={"enabled": true}'
"$python" - "$port" <<'PYTHON' || fail "see above"
import socket, sys
def ask(method, path, header, source):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20, source_address=(source, 0)) as connection:
        connection.sendall(header + f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        return connection.recv(65536)[9:12]
POST, STATUS = ("POST", "/v2/systemsharedmemory/unregister"), ("GET", "/v2/systemsharedmemory/status")
for header in b"PROXY TCP4 127.0.0.9 127.0.0.1 1 2\r\n", b"PROXY TCP6 ::1 ::1 1 2\r\n", b"PROXY TCP6 ::ffff:127.0.0.9 ::1 1 2\r\n":
    for method, path in POST, STATUS:
        assert ask(method, path, header, "127.0.0.1") == b"403", (header, path)
    assert ask("POST", "/v2/repository/models/none/load", header, "127.0.0.1") == b"403", header
assert ask(*STATUS, b"", "127.0.0.2") == b"200", "one of this machine, without a proxy"
assert ask("POST", "/v2/repository/models/none/load", b"", "127.0.0.2") == b"400", "model_control is not explicit"
PYTHON
stop

echo "Connections count as the client's: one that has too many leaves room for others."
http='"connections": 6, "connections_per_address": 2'
serve
"$python" - "$port" <<'PYTHON' || fail "see above"
import socket, sys
def client(address):
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20)
    connection.sendall(f"PROXY TCP4 {address} 10.0.0.1 1 2\r\nGET /v2 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    try:
        return connection, connection.recv(65536)[:12]
    except ConnectionError:
        return connection, b""
kept = [client("203.0.113.1") for _ in range(2)]
assert all(answer == b"HTTP/1.1 200" for _, answer in kept), kept
for _ in range(20):
    assert client("203.0.113.1")[1] == b"", "a third connection of one client"
kept += [client("203.0.113.2") for _ in range(2)]
assert all(answer == b"HTTP/1.1 200" for _, answer in kept), kept
PYTHON
stop
http='"connections": 16384'

echo "Through HAProxy, TLS passed through: both versions."
haproxy=$(PATH=$PATH:/usr/sbin command -v haproxy) || skip "there is no haproxy (Debian package haproxy); the rest passed"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/key.pem" -out "$work/certificate.pem" \
  -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -days 2 2>/dev/null
serve "tls={\"certificate\": \"$work/certificate.pem\", \"key\": \"$work/key.pem\"}"
for version in send-proxy send-proxy-v2; do
  cat >"$work/haproxy.cfg" <<CONFIGURATION
defaults
  mode tcp
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend f
  bind fd@3
  default_backend b
backend b
  server s 127.0.0.1:$port $version
CONFIGURATION
  "$python" tests/tools/on_free_port.py "$work/$version.port" "$haproxy" -q -db -f "$work/haproxy.cfg" >"$work/proxy.log" 2>&1 &
  proxy=$!
  until_true 10 test -s "$work/$version.port" || fail "haproxy did not start"
  through=https://127.0.0.1:$(cat "$work/$version.port")
  until_true 20 curl -fs --cacert "$work/certificate.pem" -o /dev/null "$through/v2" || fail "$version: $(cat "$work/proxy.log")"
  expect 200 --cacert "$work/certificate.pem" --interface 127.0.0.7 -H "X-Request-Id: $version" "$through/v2"
  until_true 10 is_logged $version 127.0.0.7 || fail "$version: $(grep msg=request "$work/log")"
  kill -TERM $proxy
  wait $proxy || true
  proxy=
done
stop
echo "passed"
