#!/usr/bin/env bash
# sanitize: yes
# The calls of the shared memory extension: what is registered, what is refused, and who may.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

object=convoy-test-$$-$RANDOM
remove() {
  local status=$?
  rm -f "/dev/shm/$object"
  finish $status
}
trap remove EXIT
[ -w /dev/shm ] || skip "there is no /dev/shm to make objects in"
truncate -s 4096 "/dev/shm/$object"

# says PATTERN: the sentence of the last answer.
says() {
  local sentence
  sentence=$(json "$work/body" 'd["error"]')
  # shellcheck disable=SC2053 # the pattern is one
  [[ $sentence == $1 ]] || fail "the sentence is not $1: $sentence"
}

# regions [PATH]: name, key, offset and size of what is registered.
regions() {
  expect 200 "$shared${1:-}/status"
  json "$work/body" "[[r['name'], r['key'].replace('$object', 'OBJECT'), r['offset'], r['byte_size']] for r in d]"
}

# is EXPECTED [PATH]
is() {
  local found
  found=$(regions "${2:-}")
  [ "$found" = "$1" ] || fail "registered are $found in place of $1"
}

echo "Off unless it is switched on: nothing can be registered or used, and no extension is promised."
start --backend null
shared=$url/v2/systemsharedmemory
expect 403 -d "{\"key\": \"/$object\", \"byte_size\": 1}" "$shared/region/a/register"
says '*shared_memory.enabled*'
for path in unregister region/a/unregister; do expect 403 -X POST "$shared/$path"; done
for path in status region/a/status; do expect 403 "$shared/$path"; done
expect 403 -d '{"inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, 32, 32, 3],
  "parameters": {"shared_memory_region": "a", "shared_memory_byte_size": 3072}}]}' "$url/v2/models/cifar10-convnet/infer"
expect 200 "$url/v2"
[ "$(json "$work/body" '"system_shared_memory" in d["extensions"]')" = False ] || fail "$(cat "$work/body")"
stop

echo "Only objects of the users and under the prefix that the configuration names."
configure "shared_memory={\"enabled\": true, \"prefix\": \"/convoy-test-\", \"owners\": [\"$(($(id -u) + 1))\"]}"
start --backend null --config "$work/config.json"
shared=$url/v2/systemsharedmemory
expect 400 -d "{\"key\": \"/$object\", \"byte_size\": 1}" "$shared/region/a/register"
says '*shared_memory.owners*'
expect 400 -d '{"key": "/convoy-tes", "byte_size": 1}' "$shared/region/a/register"
says '*shared_memory.prefix*'
stop
configure 'shared_memory={"enabled": true, "owners": ["no-such-user"]}'
if "$build/bin/convoyd" --config "$work/config.json" --listen 127.0.0.1:0 --backend null >"$work/said" 2>&1; then fail "a user that is not there is taken"; fi
grep -q "no user 'no-such-user'" "$work/said" || fail "$(cat "$work/said")"

configure 'http={"max_body_bytes": 5000000}' 'shared_memory={"enabled": true}'
start --backend null --config "$work/config.json"
shared=$url/v2/systemsharedmemory
before=$(descriptors)

echo "Registered, asked for, unregistered."
is '[]'
expect 200 -d "{\"key\": \"/$object\", \"offset\": 96, \"byte_size\": 4000}" "$shared/region/input/register"
[ "$(json "$work/body" d)" = '{}' ] || fail "the answer is not {}: $(cat "$work/body")"
# Without an offset, without the slash, with members that are not known, in chunks.
expect 200 -H 'Transfer-Encoding: chunked' -d "{\"byte_size\": 4096, \"key\": \"$object\", \"more\": [1]}" "$shared/region/a%20b%2F%C3%A4/register"
is "[['a b/ä', 'OBJECT', 0, 4096], ['input', '/OBJECT', 96, 4000]]"
is "[['input', '/OBJECT', 96, 4000]]" /region/input
is "[['a b/ä', 'OBJECT', 0, 4096]]" /region/a%20b%2f%c3%a4
grep -qi '^content-type: application/json' "$work/headers" || fail "no JSON"
expect 200 -I "$shared/status"
expect 200 -X POST "$shared/region/input/unregister"
expect 200 -X POST "$shared/region/input/unregister"
expect 200 -d '' "$shared/region/nobody/unregister"
is "[['a b/ä', 'OBJECT', 0, 4096]]"
expect 200 -d "{\"key\": \"/$object\", \"byte_size\": 1}" "$shared/region/input/register"
expect 200 -X POST "$shared/unregister"
[ "$(json "$work/body" d)" = '{}' ] || fail "the answer is not {}: $(cat "$work/body")"
is '[]'
expect 404 "$shared/region/input/status"
says "*'input'*"

echo "Refused."
refuse() { # PATTERN BODY [STATUS]
  expect "${3:-400}" --data-binary "$2" "$shared/region/bad/register"
  says "$1"
}
refuse '*empty*' ''
refuse '*not valid JSON*' '{"key": '
refuse '*JSON object*' '[]'
refuse '*nothing may follow*' "{\"key\": \"/$object\", \"byte_size\": 1} x"
refuse '*twice*' "{\"key\": \"/$object\", \"byte_size\": 1, \"byte_size\": 2}"
refuse "*lacks 'key'*" '{"byte_size": 1}'
refuse "*lacks 'byte_size'*" "{\"key\": \"/$object\"}"
refuse '*key must be a string*' '{"key": 1, "byte_size": 1}'
refuse '*key must be a string*' '{"key": null, "byte_size": 1}'
for number in 0 -1 1.5 '"1"' null 1e300 99999999999999999999; do
  refuse '*byte_size must be*' "{\"key\": \"/$object\", \"byte_size\": $number}"
done
for number in -1 0.5 '"0"' null 99999999999999999999; do
  refuse '*offset must be*' "{\"key\": \"/$object\", \"byte_size\": 1, \"offset\": $number}"
done
refuse '*more than the shared memory object has:*' "{\"key\": \"/$object\", \"byte_size\": 4097}"
refuse '*more than the shared memory object has:*' "{\"key\": \"/$object\", \"byte_size\": 1, \"offset\": 4096}"
refuse '*more than*' "{\"key\": \"/$object\", \"byte_size\": 9007199254740991, \"offset\": 9007199254740991}"
refuse '*no shared memory object*' "{\"key\": \"/$object-missing\", \"byte_size\": 1}"
refuse "*'/name'*" "{\"key\": \"/../shm/$object\", \"byte_size\": 1}"
refuse "*'/name'*" "{\"key\": \"/dev/shm/$object\", \"byte_size\": 1}"
refuse "*u0000*" "{\"key\": \"/$object\\u0000x\", \"byte_size\": 1}"
# More than is read of a document, though not of a body.
head -c 4500000 /dev/zero | tr '\0' ' ' >"$work/blanks"
refuse '*reads*' "@$work/blanks" 413
long=$(head -c 256 /dev/zero | tr '\0' n)
expect 400 -d "{\"key\": \"/$object\", \"byte_size\": 1}" "$shared/region/$long/register"
says '*255*'
expect 400 -d "{\"key\": \"/$object\", \"byte_size\": 1}" "$shared/region/%ff/register"
says '*UTF-8*'
expect 200 -d "{\"key\": \"/$object\", \"byte_size\": 1}" "$shared/region/${long:1}/register"
expect 400 -d "{\"key\": \"/$object\", \"byte_size\": 1}" "$shared/region/${long:1}/register"
says '*already*'
expect 404 "$shared/region/$long/status"
expect 200 -X POST "$shared/region/$long/unregister"
is "[['${long:1}', '/OBJECT', 0, 1]]"
expect 200 -X POST "$shared/unregister"
for path in status region/a/status; do
  expect 405 -d '' "$shared/$path"
done
for path in unregister region/a/register region/a/unregister; do
  expect 405 "$shared/$path"
  grep -qi '^allow: POST' "$work/headers" || fail "no Allow: POST"
done
for path in '' /register /region /region/a /region//register; do
  expect 404 -d '' "$shared$path"
done

echo "The answer says nothing of where an output is: NVIDIA's C++ client takes parameters without binary_data_size for a mistake."
expect 200 -d "{\"key\": \"/$object\", \"byte_size\": 4096}" "$shared/region/output/register"
"$python" -c 'import json; print(json.dumps({"inputs": [{"name": "image", "datatype": "UINT8", "shape": [2, 32, 32, 3], "data": [9] * 6144}],
  "outputs": [{"name": "logits", "parameters": {"shared_memory_region": "output", "shared_memory_offset": 16, "shared_memory_byte_size": 80}}]}))' >"$work/request"
expect 200 --data-binary "@$work/request" "$url/v2/models/cifar10-convnet/infer"
[ "$(json "$work/body" 'd["outputs"]')" = "[{'name': 'logits', 'datatype': 'FP32', 'shape': [2, 10]}]" ] || fail "$(cat "$work/body")"
# The backend null answers 1/10 for each class: 20 floats, after 16 bytes that stay as they were.
[ "$("$python" -c 'import struct, sys; print([round(x, 6) for x in struct.unpack("<25f", open(sys.argv[1], "rb").read(100))] == [0] * 4 + [0.1] * 20 + [0])' \
  "/dev/shm/$object")" = True ] || fail "the output is not where it was wanted"
expect 200 -X POST "$shared/unregister"

echo "CUDA shared memory: there is none."
cuda=$url/v2/cudasharedmemory
expect 200 "$cuda/status"
[ "$(json "$work/body" d)" = '[]' ] || fail "$(cat "$work/body")"
expect 404 "$cuda/region/gpu/status"
says '*CUDA*'
expect 400 -d '{"raw_handle": {"b64": "AAAA"}, "device_id": 0, "byte_size": 64}' "$cuda/region/gpu/register"
says '*systemsharedmemory*'
for path in region/gpu/unregister unregister; do
  expect 200 -X POST "$cuda/$path"
  [ "$(json "$work/body" d)" = '{}' ] || fail "$(cat "$work/body")"
  expect 405 "$cuda/$path"
done
expect 405 -d '' "$cuda/status"
expect 404 "$cuda/region/gpu"

echo "1024 and no more."
"$python" - "$shared" "$object" <<'PYTHON' || fail "see above"
import http.client, json, sys, urllib.parse
to = urllib.parse.urlsplit(sys.argv[1])
connection = http.client.HTTPConnection(to.hostname, to.port)
for i in range(1025):
    connection.request("POST", f"{to.path}/region/r{i}/register", json.dumps({"key": sys.argv[2], "byte_size": 1}))
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != (200 if i < 1024 else 400):
        sys.exit(f"region {i}: {answer.status} {body}")
if b"1024" not in body:
    sys.exit(f"not said how many: {body}")
PYTHON
[ "$(regions | tr -cd r | wc -c)" = 1024 ] || fail "not 1024 regions: $(regions)"
expect 200 -X POST "$shared/unregister"

echo "An object that is gone, or too short, is not minded by what does not need it."
expect 200 -d "{\"key\": \"/$object\", \"byte_size\": 4096}" "$shared/region/input/register"
truncate -s 0 "/dev/shm/$object"
is "[['input', '/OBJECT', 0, 4096]]"
rm "/dev/shm/$object"
is "[['input', '/OBJECT', 0, 4096]]"
expect 200 -X POST "$shared/region/input/unregister"

echo "No descriptor is left."
as_before() { [ "$(descriptors)" -le "$before" ]; }
until_true 10 as_before || fail "$(descriptors) descriptors, $before before"
stop

echo "By this machine's other addresses one is a stranger."
truncate -s 4096 "/dev/shm/$object"
start --backend null --config "$work/config.json" --listen :0
for host in 127.0.0.1 127.9.8.7; do
  shared=http://$host:$port/v2/systemsharedmemory
  expect 200 -d "{\"key\": \"/$object\", \"byte_size\": 1}" "$shared/region/$host/register"
  expect 200 -X POST "$shared/region/$host/unregister"
done
expect 200 -d "{\"key\": \"/$object\", \"byte_size\": 1}" "$shared/region/kept/register"
others=$(hostname -I 2>/dev/null || true)
for host in $others; do
  case $host in
    127.* | fe80:*) continue ;;
    *:*) shared="http://[$host]:$port/v2/systemsharedmemory" ;;
    *) shared=http://$host:$port/v2/systemsharedmemory ;;
  esac
  echo "  $host"
  expect 403 -d "{\"key\": \"/$object\", \"byte_size\": 1}" "$shared/region/input/register"
  says '*loopback*'
  expect 403 -d 'not even JSON' "$shared/region/input/register"
  expect 403 -X POST "$shared/region/kept/unregister"
  expect 403 -X POST "$shared/unregister"
  expect 403 "$shared/status"
  expect 403 "$shared/region/kept/status"
done
[ -n "$others" ] || echo "  (it has none: tests/unit/server/inference/shared_memory.c looks at addresses)"
if [ -e /proc/net/if_inet6 ] && grep -q ' lo$' /proc/net/if_inet6; then
  shared="http://[::1]:$port/v2/systemsharedmemory"
  expect 200 -d "{\"key\": \"/$object\", \"byte_size\": 1}" "$shared/region/six/register"
fi
stop
echo "passed"
