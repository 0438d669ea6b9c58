#!/usr/bin/env bash
# The node tests of PyPI's onnx on the CPU backend: tests/survey/node_cases.sh [OPERATOR...]. Prints a line for each operator,
# a line for each case that is refused, and the counts; exit status 1 where a case is answered wrongly or ends the program,
# 77 where PyPI's onnx cannot be had. CONVOY_BUILD names the build, PYTHON a Python that has onnx.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${CONVOY_BUILD:-build}
venv=build/venv-survey
python=${PYTHON:-$venv/bin/python}
has() { "$python" -c 'import onnx, numpy' >/dev/null 2>&1; }
if [ -z "${PYTHON:-}" ] && ! has; then
  [ -x $venv/bin/python ] || /usr/bin/python3 -m venv $venv
  $venv/bin/python -m pip install -q onnx numpy >&2 || true
fi
has || { echo "the node tests cannot run: $python lacks onnx or numpy"; exit 77; }
program=$build/tests/unit_engine_backends
[ -x "$program" ] || { echo "node_cases.sh: $program is missing; build it first" >&2; exit 1; }
export PYTHONDONTWRITEBYTECODE=1
"$python" tests/survey/node_cases.py write build/node-cases "$@"
"$python" tests/survey/node_cases.py run build/node-cases "$program"
