# shellcheck shell=bash
# What the surveys share: they run in the project's folder, with a Python that has packages of PyPI.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
venv=build/venv-survey
python=${PYTHON:-$venv/bin/python}
export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore

# lacking PACKAGE...: those that $python cannot import.
lacking() {
  "$python" - "$@" <<'PYTHON' 2>/dev/null || echo python
import importlib, sys
for package in sys.argv[1:]:
    try:
        importlib.import_module({"pillow": "PIL", "tensorflow-cpu": "tensorflow"}.get(package, package))
    except ImportError:
        print(package)
PYTHON
}

# python_with WHO PACKAGE...: $python has these packages, or the script ends with status 77. They are installed from PyPI into
# $venv unless PYTHON names a Python.
python_with() {
  local who=$1 missing
  shift
  if [ -z "${PYTHON:-}" ] && [ -n "$(lacking "$@")" ]; then
    [ -x $venv/bin/python ] || /usr/bin/python3 -m venv $venv
    $venv/bin/python -m pip install -q "$@" >&2 || true
  fi
  missing=$(lacking "$@" | tr '\n' ' ')
  if [ -n "$missing" ]; then
    echo "$who cannot run: $python lacks ${missing% }"
    exit 77
  fi
}
