#!/usr/bin/env bash
# sanitize: yes
# HTTP on the wire: keep-alive, pipelines, HEAD, Expect, chunks, HTTP/1.0, limits, and bytes that are not HTTP.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

configure 'default_model="cifar10-convnet"' 'http={"max_header_bytes": 8192, "max_body_bytes": 200000, "request_timeout_ms": 3000}'
start --backend cpu --config "$work/config.json"
before=$(descriptors)
"$python" tests/tools/http_wire.py "$url" models/samples/ship.jpg 8192 200000 || fail "see above"

echo "The same by curl."
head -c 300000 /dev/zero >"$work/large"
expect 413 --data-binary "@$work/large" "$url/classify"
expect 413 -H 'Transfer-Encoding: chunked' --data-binary "@$work/large" "$url/classify"
expect 413 -H 'Expect: 100-continue' --data-binary "@$work/large" "$url/classify"
expect 200 -H 'Transfer-Encoding: chunked' --data-binary @models/samples/ship.jpg "$url/classify"

echo "No descriptor is left."
as_before() { [ "$(descriptors)" -le "$before" ]; }
until_true 10 as_before || fail "$(descriptors) descriptors, $before before"
stop
echo "passed"
