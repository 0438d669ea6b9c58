#!/usr/bin/env bash
# KServe's own Python client (kserve from PyPI) against convoyd, with its V1 and V2 protocols: images and tensors.
# all: PyPI brings some hundred packages for this client
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/pypi.sh
. "$(dirname "$0")/pypi.sh"

venv=build/venv-kserve
have_client() { "$venv/bin/python" -c 'from kserve import InferenceRESTClient' 2>/dev/null; }
have_client || { from_pypi "$venv" kserve && have_client; } >"$work/pip" 2>&1 || skip "kserve cannot be installed here: $(tail -n 1 "$work/pip")"

configure 'default_model="cifar10-resnet"'
start --config "$work/config.json" --backend cpu
"$venv/bin/python" tests/tools/kserve_client.py "$url" models/samples 2>"$work/errors" || fail "$(cat "$work/errors")"
stop
echo "passed"
