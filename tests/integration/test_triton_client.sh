#!/usr/bin/env bash
# sanitize: all
# all: numpy, pillow and this client are half a minute of processor time; test_infer.sh and test_inputs.sh send what it sends
# NVIDIA's own client (tritonclient from PyPI) against convoyd: health, metadata, inference in every input form; and over
# TLS, with an authority of its own and keys.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/pypi.sh
. "$(dirname "$0")/pypi.sh"

venv=build/venv-triton
have_client() { "$venv/bin/python" -c 'import tritonclient.http.aio, PIL' 2>/dev/null; }
have_client || { from_pypi "$venv" 'tritonclient[http]' pillow && have_client; } >"$work/pip" 2>&1 ||
  skip "tritonclient cannot be installed here: $(tail -n 1 "$work/pip")"

configure 'model_control="explicit"' 'repository={"load_at_start": ["cifar10-convnet", "fashion-lenet", "cifar10-resnet", "fashion-ece408"]}' \
  'default_model="cifar10-resnet"' 'auth={"loopback_admin": true}' 'shared_memory={"enabled": true}'
start --config "$work/config.json" --backend cpu
"$venv/bin/python" tests/tools/triton_client.py "${url#http://}" models/samples || fail "see above"
stop

command -v openssl >/dev/null || skip "there is no openssl (Debian package openssl) for the client's TLS; the rest passed"
umask 077
for name in authority stranger; do
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/$name.key" -out "$work/$name.pem" \
    -subj "/CN=$name" -days 2 2>/dev/null
done
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/server.key" -out "$work/server.csr" -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null
openssl x509 -req -in "$work/server.csr" -CA "$work/authority.pem" -CAkey "$work/authority.key" -copy_extensions copy -days 1 \
  -out "$work/server.pem" 2>/dev/null
"$build/bin/convoy" key client infer,metrics >"$work/keys" 2>"$work/client.key"
"$build/bin/convoy" key boss admin >>"$work/keys" 2>"$work/boss.key"
configure 'model_control="explicit"' 'repository={"load_at_start": ["cifar10-convnet"]}' \
  "tls={\"certificate\": \"$work/server.pem\", \"key\": \"$work/server.key\"}" "auth={\"keys\": \"$work/keys\", \"anonymous\": []}"
launch --config "$work/config.json" --backend null
url=https://localhost:$port
# shellcheck disable=SC2317 # until_true calls it
ready() { curl -fs --cacert "$work/authority.pem" -o /dev/null "$url/v2/health/ready"; }
until_true 30 ready || fail "convoyd was not ready within 30 s"
"$venv/bin/python" tests/tools/triton_tls_client.py "${url#https://}" "$work/authority.pem" "$work/stranger.pem" \
  "$(tail -n 1 "$work/client.key")" "$(tail -n 1 "$work/boss.key")" || fail "see above"
stop
echo "passed"
