#!/usr/bin/env bash
# sanitize: yes
# TLS: versions and ciphers, tickets, client certificates, renewal at SIGHUP without closing a connection, files that are
# wrong, clients that say nothing in a handshake or dribble, and what is counted.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

command -v openssl >/dev/null || skip "there is no openssl (Debian package openssl)"
image=models/samples/ship.jpg

# authority NAME
authority() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/$1.key" -out "$work/$1.pem" \
    -subj "/CN=$1" -days 2 2>/dev/null
}

# certificate NAME AUTHORITY PURPOSE [ARGUMENTS...]: signs NAME.pem, with NAME.key.
certificate() {
  local name=$1 by=$2 purpose=$3
  shift 3
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/$name.key" -out "$work/$name.csr" \
    -subj "/CN=$name" -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext "extendedKeyUsage=$purpose" 2>/dev/null
  openssl x509 -req -in "$work/$name.csr" -CA "$work/$by.pem" -CAkey "$work/$by.key" -copy_extensions copy \
    -out "$work/$name.pem" "${@:--days=1}" 2>/dev/null
  chmod 600 "$work/$name.key"
}

# tls_config EXTRA...: the certificate of $work/server.{pem,key}.
tls_config() {
  configure 'default_model="cifar10-convnet"' \
    "tls={\"certificate\": \"$work/server.pem\", \"key\": \"$work/server.key\"${1:-}}" "${@:2}"
}

# secure: start() over HTTPS.
# shellcheck disable=SC2317 # until_true calls it
ready() { curl -fs --cacert "$work/authority.pem" -o /dev/null "$url/v2/health/ready"; }
secure() {
  launch --backend null --config "$work/config.json"
  url=https://127.0.0.1:$port
  until_true 120 ready || fail "convoyd was not ready within 120 s"
}
tls_sample() { curl -fsS --cacert "$work/authority.pem" "$url/metrics" | awk -v name="$1 " 'index($0, name) == 1 { print $NF }'; }
failures() { tls_sample "convoyd_tls_handshake_failures_total{reason=\"$1\"}"; }
all_failures() { for reason in not_tls version parameters client_certificate refused closed timeout protocol; do echo "$reason $(failures $reason)"; done; }
counted() { [ "$(failures "$1")" -gt "$2" ]; }
# fails REASON COMMAND...: the command must fail, and be counted as that.
fails() {
  local reason=$1 before
  shift
  before=$(failures "$reason")
  ! "$@" >"$work/out" 2>&1 || fail "$*: it succeeds: $(cat "$work/out")"
  until_true 10 counted "$reason" "$before" || fail "$*: not counted as $reason, but: $(all_failures); $(cat "$work/out")"
}
client() { openssl s_client -connect "127.0.0.1:$port" -CAfile "$work/authority.pem" -verify_return_error "$@" </dev/null; }

authority authority
authority stranger
certificate server authority serverAuth
tls_config
secure

echo "An image over HTTPS; 1.2 and 1.3 are spoken, older versions and weak ciphers are not."
expect 200 --cacert "$work/authority.pem" --data-binary @$image "$url/classify"
for version in tls1_2 tls1_3; do client -$version >"$work/out" 2>&1 || fail "$version: $(cat "$work/out")"; done
for version in tls1 tls1_1; do fails version client -$version -cipher ALL@SECLEVEL=0; done
strong=ECDHE+AESGCM:ECDHE+CHACHA20
for cipher in $(openssl ciphers -tls1_2 -s "$strong" | tr : ' '); do
  [[ $cipher = *RSA* ]] || client -tls1_2 -cipher "$cipher" >"$work/out" 2>&1 || fail "$cipher: $(cat "$work/out")"
done
# Every other one that OpenSSL has, offered together.
fails parameters client -tls1_2 -cipher "ALL:COMPLEMENTOFALL:!${strong//:/:!}:@SECLEVEL=0"
fails parameters client -tls1_2 -cipher AES128-SHA
fails refused curl -sS "$url/v2"

echo "Not TLS at all; and a client that leaves in the middle."
fails not_tls curl -sS "http://127.0.0.1:$port/v2"
fails closed "$python" - "$port" <<'PYTHON'
import socket, sys
socket.create_connection(("127.0.0.1", int(sys.argv[1]))).close()
sys.exit(1)
PYTHON

echo "A second connection resumes the session, in both versions."
"$python" - "$port" "$work/authority.pem" <<'PYTHON' || fail "see above"
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
def ask(session, version):
    context.minimum_version = context.maximum_version = version
    raw = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30)
    with context.wrap_socket(raw, server_hostname="localhost", session=session) as connection:
        connection.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b""
        while data := connection.recv(65536):
            answer += data
        assert answer.startswith(b"HTTP/1.1 200"), answer
        return connection.session, connection.session_reused
for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
    session, reused = ask(None, version)
    assert not reused
    assert ask(session, version)[1], f"{version}: the session is not resumed"
PYTHON
[ "$(tls_sample 'convoyd_tls_handshakes_total{kind="resumed"}')" = 2 ] || fail "resumed handshakes are not counted"

echo "SIGHUP: connections go on, new ones get the new certificate; a file that is wrong changes nothing."
serial() { client 2>/dev/null | openssl x509 -noout -serial; }
# Reload, and wait for what the log says of it.
reload() {
  local before
  before=$(grep -c "$1" "$work/log" || true)
  kill -HUP "$daemon"
  # shellcheck disable=SC2317 # until_true calls it
  said() { [ "$(grep -c "$2" "$work/log")" -gt "$1" ]; }
  until_true 10 said "$before" "$1" || fail "the log does not say: $1"
}
mkfifo "$work/go"
"$python" - "$port" "$work/authority.pem" "$work/go" <<'PYTHON' &
import http.client, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
connection = http.client.HTTPSConnection("localhost", int(sys.argv[1]), context=context, timeout=30)
connection.connect()
mine = connection.sock
for turn in range(2):
    connection.request("GET", "/v2")
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200 and connection.sock is mine, "the connection was closed"
    if turn == 0:
        open(sys.argv[3], "w").write("asked")
        open(sys.argv[3]).read()
PYTHON
kept=$!
cat "$work/go" >/dev/null
first=$(serial)
cp "$work/server.key" "$work/first.key"
certificate server authority serverAuth
cp "$work/server.key" "$work/second.key"
cp "$work/first.key" "$work/server.key"
reload 'the certificate is not taken over'
grep 'is not the key of the certificate' "$work/log" >/dev/null || fail "the log does not say why"
[ "$(serial)" = "$first" ] || fail "a certificate without its key is served"
cp "$work/second.key" "$work/server.key"
reload 'certificate read again'
[ "$(serial)" != "$first" ] || fail "the new certificate is not served"
echo go >"$work/go"
wait $kept || fail "the connection that was open"
expiry=$(date -d "$(openssl x509 -in "$work/server.pem" -noout -enddate | cut -d= -f2)" +%s)
[ "$(tls_sample convoyd_tls_certificate_expiry_timestamp_seconds)" = "$expiry" ] || fail "the metric of the expiry is wrong"
stop

echo "A client certificate is required: its authority, its purpose and its dates count."
certificate friend authority clientAuth
certificate foreign stranger clientAuth
certificate misused authority serverAuth
tls_config ", \"client_ca\": \"$work/authority.pem\"" 'log={"level": "debug"}'
launch --backend null --config "$work/config.json" --health-listen 127.0.0.1:0
url=https://127.0.0.1:$port
friend=(--cacert "$work/authority.pem" --cert "$work/friend.pem" --key "$work/friend.key")
# shellcheck disable=SC2317 # until_true calls it
ready() { curl -fs "${friend[@]}" -o /dev/null "$url/v2/health/ready"; }
tls_sample() { curl -fsS "$health/metrics" | awk -v name="$1 " 'index($0, name) == 1 { print $NF }'; }
health=http://127.0.0.1:$(sed -n 's/.*msg="health and metrics are answered".* port=\([0-9]*\).*/\1/p' "$work/log")
until_true 120 ready || fail "convoyd was not ready within 120 s"
expect 200 "${friend[@]}" --data-binary @$image "$url/classify"
curl -fsS -o /dev/null "$health/v2/health/live" || fail "health_listen is not plain HTTP"
for version in 1.2 1.3; do
  fails client_certificate curl -sS --cacert "$work/authority.pem" --tlsv$version --tls-max $version "$url/v2"
  for other in foreign misused; do
    fails client_certificate curl -sS --cacert "$work/authority.pem" --tlsv$version --tls-max $version \
      --cert "$work/$other.pem" --key "$work/$other.key" "$url/v2"
  done
done
stop

echo "A handshake in which nothing comes, and one of a byte now and then, end by request_timeout_ms; an idle connection does not."
tls_config '' 'http={"request_timeout_ms": 400, "idle_timeout_ms": 60000}'
# shellcheck disable=SC2317 # until_true calls it
ready() { curl -fs --cacert "$work/authority.pem" -o /dev/null "$url/v2/health/ready"; }
tls_sample() { curl -fsS --cacert "$work/authority.pem" "$url/metrics" | awk -v name="$1 " 'index($0, name) == 1 { print $NF }'; }
secure
"$python" - "$port" "$work/authority.pem" <<'PYTHON' || fail "see above"
import select, socket, ssl, sys, time
address = ("127.0.0.1", int(sys.argv[1]))
context = ssl.create_default_context(cafile=sys.argv[2])
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
session = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
try:
    session.do_handshake()
except ssl.SSLWantReadError:
    pass
hello = outgoing.read()
idle = context.wrap_socket(socket.create_connection(address, timeout=30), server_hostname="localhost")
begun, ended, at = time.monotonic(), {}, 0
silent, dribbling = socket.create_connection(address), socket.create_connection(address)
while len(ended) < 2:
    assert time.monotonic() < begun + 20, f"only {len(ended)} connections are closed"
    if dribbling not in ended:
        try:
            dribbling.send(hello[at:at + 1])
        except OSError:
            pass
        at = min(at + 1, len(hello) - 2)  # its end never comes
    waits = [s for s in (silent, dribbling) if s not in ended]
    for s in select.select(waits, [], [], 0.05)[0]:
        try:
            s.recv(100)
        except OSError:
            pass
        ended[s] = time.monotonic() - begun
assert min(ended.values()) > 0.3, f"closed at once: {ended.values()}"
idle.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
assert idle.recv(65536).startswith(b"HTTP/1.1 200"), "an idle connection was closed"
PYTHON
until_true 10 counted timeout 1 || fail "two handshakes without an end are not counted: $(failures timeout)"
stop

echo "convoy over HTTPS: it trusts the authority that it is told, any server with --insecure, and else none."
certificate friend authority clientAuth
tls_config ", \"client_ca\": \"$work/authority.pem\""
# shellcheck disable=SC2317 # until_true calls it
ready() { curl -fs "${friend[@]}" -o /dev/null "$url/v2/health/ready"; }
secure
me=(--cert "$work/friend.pem" --key "$work/friend.key")
"$build/bin/convoy" --url "$url" models --cacert "$work/authority.pem" "${me[@]}" >"$work/out" || fail "convoy --cacert --cert --key"
"$build/bin/convoy" --url "$url" classify --insecure "${me[@]}" $image >"$work/out" || fail "convoy --insecure"
# convoy_fails STATUS SENTENCE ARGUMENTS...
convoy_fails() {
  local status=0
  "$build/bin/convoy" --url "$url" models "${@:3}" >"$work/out" 2>&1 || status=$?
  [ $status = "$1" ] || fail "convoy ${*:3}: status $status: $(cat "$work/out")"
  grep -E "$2" "$work/out" >/dev/null || fail "convoy ${*:3} does not say '$2': $(cat "$work/out")"
}
convoy_fails 4 'cannot be trusted: .*--cacert' "${me[@]}"
convoy_fails 4 'cannot be trusted' --cacert "$work/stranger.pem" "${me[@]}"
convoy_fails 2 'of --cacert, --cert or --key' --cacert "$work/nothing"
convoy_fails 2 'of --cacert, --cert or --key' --cacert "$work/authority.pem" --cert "$work/nothing"
convoy_fails 4 'lets in only clients with a certificate that it trusts: name one with --cert and --key' --cacert "$work/authority.pem"
stop

echo "Files that are wrong: --check-config and a start say which, and what to do."
# refused SENTENCE: both ways.
refused() {
  local status
  for check in --check-config ''; do
    status=0
    "$build/bin/convoyd" --listen 127.0.0.1:0 --backend null --config "$work/config.json" ${check:+"$check"} >"$work/out" 2>"$work/log" ||
      status=$?
    [ $status = 1 ] || fail "$1: status $status of $check"
    grep -E "convoyd: .*$1" "$work/log" >/dev/null || fail "not '$1': $(cat "$work/log")"
  done
}
tls_config
"$build/bin/convoyd" --check-config --backend null --config "$work/config.json" >"$work/out" 2>"$work/log" || fail "$(cat "$work/log")"
grep "certificate $work/server.pem: ok, valid until 2" "$work/out" >/dev/null || fail "$(cat "$work/out")"
chmod 644 "$work/server.key"
refused 'tls.key: .*server.key has mode 0644.*chmod 0600'
chmod 600 "$work/server.key"
cp "$work/server.key" "$work/kept.key"
cp "$work/friend.key" "$work/server.key"
refused 'server.key is not the key of the certificate in .*server.pem'
openssl pkey -in "$work/kept.key" -aes128 -passout pass:secret -out "$work/server.key"
refused 'server.key is encrypted.*openssl pkey'
echo nothing >"$work/server.key"
refused 'server.key holds no private key'
rm "$work/server.key"
refused 'tls.key: .*server.key: No such file'
cp "$work/kept.key" "$work/server.key"
cp "$work/server.pem" "$work/kept.pem"
echo nothing >"$work/server.pem"
refused 'server.pem holds no chain of certificates in PEM'
openssl x509 -req -in "$work/server.csr" -CA "$work/authority.pem" -CAkey "$work/authority.key" -days -1 -out "$work/server.pem" 2>/dev/null
refused 'server.pem expired on 2.* UTC: renew it'
cp "$work/kept.pem" "$work/server.pem"
echo nothing >"$work/empty.pem"
tls_config ", \"client_ca\": \"$work/empty.pem\""
refused 'tls.client_ca: .*empty.pem holds no certificate'
configure "tls={\"certificate\": \"$work/server.pem\"}"
refused 'tls.certificate is set and tls.key is not'
echo "passed"
