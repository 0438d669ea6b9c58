#!/usr/bin/env bash
# The node tests of PyPI's onnx on the CPU backend: tests/survey/node_cases.sh [OPERATOR...]. Prints a line for each operator,
# a line for each case that is refused, and the counts; exit status 1 where a case is answered wrongly or ends the program,
# 77 where PyPI's onnx cannot be had. CONVOY_BUILD names the build, PYTHON a Python that has onnx.
# shellcheck source=tests/survey/lib.sh
. "$(dirname "$0")/lib.sh"
build=${CONVOY_BUILD:-build}
python_with "the node tests" onnx numpy
program=$build/tests/unit_engine_backends
[ -x "$program" ] || { echo "node_cases.sh: $program is missing; build it first" >&2; exit 1; }
"$python" tests/survey/node_cases.py write build/node-cases "$@"
"$python" tests/survey/node_cases.py run build/node-cases "$program"
