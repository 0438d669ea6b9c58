#!/usr/bin/env bash
# Pages of other sites (http.cors_origins): which may read answers, preflights, and that it opens nothing else.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
header() { grep -i "^$1:" "$work/headers" | tr -d '\r' | sed 's/^[^:]*: *//'; }
is() { [ "$(header "$1")" = "$2" ] || fail "$1 is '$(header "$1")', not '$2': $(cat "$work/headers")"; }
none() { if grep -i '^access-control' "$work/headers"; then fail "these headers are there"; fi; }
preflight() { expect "$1" -X OPTIONS -H "Origin: $2" -H 'Access-Control-Request-Method: POST' -H 'Access-Control-Request-Headers: authorization' "$url/classify"; }
(umask 077; : >"$work/keys")
"$build/bin/convoy" key page infer >>"$work/keys" 2>"$work/key"
key=$(tail -n 1 "$work/key")

configure 'backend="null"'
start --config "$work/config.json" --models models
expect 200 -H 'Origin: https://app.example' "$url/v2/models"
none
is Vary ''
preflight 405 https://app.example
none
stop

configure 'backend="null"' "auth={\"keys\": \"$work/keys\", \"anonymous\": [], \"loopback_admin\": true}" \
  'http={"cors_origins": ["https://app.example", "http://localhost:3000"]}'
start --config "$work/config.json" --models models
expect 200 -H 'Origin: https://app.example' -H "Authorization: Bearer $key" "$url/v2/models"
is Access-Control-Allow-Origin https://app.example
is Access-Control-Allow-Credentials true
is Vary Origin
expect 401 -H 'Origin: http://localhost:3000' "$url/v2/models" # the page may read why
is Access-Control-Allow-Origin http://localhost:3000
for origin in https://evil.example http://app.example https://app.example:444 https://app.example.evil.example null; do
  expect 401 -H "Origin: $origin" "$url/v2/models"
  none
  is Vary Origin
  preflight 405 "$origin"
  none
done
expect 401 "$url/v2/models"
none
is Vary Origin
preflight 204 https://app.example # without a key: browsers send none with it
is Access-Control-Allow-Origin https://app.example
is Access-Control-Allow-Methods POST
is Access-Control-Max-Age 600
[[ $(header Access-Control-Allow-Headers) == *Authorization* ]] || fail "a page may not send a key: $(cat "$work/headers")"
[ ! -s "$work/body" ] || fail "a preflight's answer has a body"
expect 405 -X OPTIONS -H 'Origin: https://app.example' "$url/classify" # no preflight
expect 404 -X OPTIONS -H 'Origin: https://app.example' -H 'Access-Control-Request-Method: POST' "$url/no"
expect 401 -X POST -H 'Origin: https://app.example' "$url/v2/repository/models/cifar10-convnet/load"
stop

configure 'backend="null"' 'http={"cors_origins": ["*"]}'
start --config "$work/config.json" --models models
expect 200 -H 'Origin: https://any.example' "$url/v2/models"
is Access-Control-Allow-Origin '*'
is Access-Control-Allow-Credentials ''
is Vary ''
preflight 204 https://any.example
is Access-Control-Allow-Origin '*'
is Access-Control-Allow-Credentials ''
stop
echo "passed"
