#!/usr/bin/env bash
# sanitize: all
# GET /v2/openapi.json: the document is OpenAPI 3.1 (openapi-spec-validator from PyPI), describes what is in the route
# table and nothing else, and the daemon answers as it says to what schemathesis (from PyPI) makes up from it.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/pypi.sh
. "$(dirname "$0")/pypi.sh"

venv=build/venv-openapi
seed=${CONVOY_SEED:-1}
# A newer schemathesis asks for other things: check those when you change this line.
schemathesis=4.32.5
have_tools() {
  "$venv/bin/python" -c "import openapi_spec_validator, importlib.metadata as m; assert m.version('schemathesis') == '$schemathesis'" 2>/dev/null
}
have_tools || { from_pypi "$venv" "schemathesis==$schemathesis" openapi-spec-validator && have_tools; } >"$work/pip" 2>&1 ||
  skip "schemathesis or openapi-spec-validator cannot be installed here: $(tail -n 1 "$work/pip")"

# What the document's example registers.
region=convoy-openapi-$$
trap 'status=$?; rm -f "/dev/shm/$region"; finish $status' EXIT
head -c 12288 /dev/zero >"/dev/shm/$region"

# A queue and a deadline that are large enough: a 503 is right where there is too much to do, and would count as an error here.
# Models are loaded and unloaded by request, or two routes would have nothing to say but 400.
names=$(cd models && printf '%s\n' */1/model.onnx | sed 's|/.*||; s/.*/"&"/' | paste -sd,)
configure 'shared_memory={"enabled": true}' 'auth={"loopback_admin": true}' 'default_model="cifar10-resnet"' 'timeout_ms=60000' 'model_control="explicit"' "repository={\"load_at_start\": [$names]}"
start --backend null --config "$work/config.json"

echo "The document."
version=$("$build/bin/convoyd" --version | awk '{ print $2 }')
expect 200 "$url/v2/openapi.json"
sed "s/@PROJECT_VERSION@/$version/" server/api/openapi.json | cmp - "$work/body" || fail "it is not what server/api/openapi.json says"
[ "$(json "$work/body" 'd["info"]["version"]')" = "$version" ] || fail "its version is not $version"
cp "$work/body" "$work/openapi.json"
"$venv/bin/python" tests/tools/openapi_check.py document "$work/openapi.json" || fail "see above"
"$venv/bin/python" tests/tools/openapi_check.py routes "$work/openapi.json" server/api/routes.c || fail "see above"

echo "The daemon beside it: schemathesis, seed $seed."
checks=not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance
checks+=,response_schema_conformance,unsupported_method,allow_header_conformance
export PYTHONPATH=tests/tools PYTHONDONTWRITEBYTECODE=1 SCHEMATHESIS_HOOKS=openapi_hooks
# What hypothesis remembers does not belong into the tree.
export HYPOTHESIS_STORAGE_DIRECTORY=$work/hypothesis
export OPENAPI_SAMPLES=models/samples/ship.jpg:models/samples/fashion/sneaker.png OPENAPI_REGION=/$region
# From the file: of a document that it fetched schemathesis leaves its own address out.
printf '[cache]\nenabled = false\n' >"$work/schemathesis.toml"
curl -fsS "$url/metrics" >"$work/before"
timeout 120 "$venv/bin/schemathesis" --config-file "$work/schemathesis.toml" run "$work/openapi.json" --url "$url" \
  --checks $checks --phases examples,coverage,fuzzing --max-examples 15 --seed "$seed" --generation-database none \
  --warnings off --no-color >"$work/schemathesis" 2>&1 ||
  fail "schemathesis: $(cat "$work/schemathesis")"
grep -E 'Tested:|generated' "$work/schemathesis"
"$venv/bin/python" tests/tools/openapi_check.py answered "$url" "$work/before" || fail "see above"

expect 200 --data-binary @models/samples/ship.jpg "$url/classify" # and serves on
stop
echo "passed"
