#!/usr/bin/env bash
# sanitize: all
# NVIDIA's own client (tritonclient from PyPI) against convoyd: health, metadata, inference in every input form.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

venv=build/venv-triton
have_client() { "$venv/bin/python" -c 'import tritonclient.http.aio, PIL' 2>/dev/null; }
install_client() {
  /usr/bin/python3 -m venv "$venv" && timeout 240 "$venv/bin/python" -m pip install -q 'tritonclient[http]' pillow
}
have_client || { install_client && have_client; } >"$work/pip" 2>&1 ||
  skip "tritonclient cannot be installed here: $(tail -n 1 "$work/pip")"

configure 'model_control="explicit"' 'repository={"load_at_start": ["cifar10-convnet", "fashion-lenet", "cifar10-resnet", "fashion-ece408"]}' \
  'default_model="cifar10-resnet"' 'auth={"loopback_admin": true}' 'shared_memory={"enabled": true}'
start --config "$work/config.json" --backend cpu
"$venv/bin/python" tests/tools/triton_client.py "${url#http://}" models/samples || fail "see above"
stop
echo "passed"
