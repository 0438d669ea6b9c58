#!/usr/bin/env bash
# Which classifiers of torchvision and timm a convoyd serves, and whether its answers are ONNX Runtime's:
# tests/survey/run.sh [OPTION...] [PATTERN...]; --help lists the options, README.md tells more. What it needs comes from PyPI
# into build/venv-survey, or is found in the Python that PYTHON names. Exit status 77: something cannot be had.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=build/venv-survey
packages=(torch torchvision timm onnx onnxscript onnxruntime numpy pillow)
python=${PYTHON:-$venv/bin/python}
missing() {
  "$python" - "${packages[@]}" <<'PYTHON' 2>/dev/null || echo python
import importlib, sys
for package in sys.argv[1:]:
    try:
        importlib.import_module({"pillow": "PIL"}.get(package, package))
    except ImportError:
        print(package)
PYTHON
}
if [ -z "${PYTHON:-}" ] && [ -n "$(missing)" ]; then
  [ -x $venv/bin/python ] || /usr/bin/python3 -m venv $venv
  $venv/bin/python -m pip install -q "${packages[@]}" >&2 || true
fi
lacking=$(missing | tr '\n' ' ')
if [ -n "$lacking" ]; then
  echo "the survey cannot run: $python lacks ${lacking% }"
  exit 77
fi
export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore
exec "$python" tests/survey/survey.py "$@"
