# shellcheck shell=bash
# Packages of PyPI for tests, on top of lib.sh.

# from_pypi VENV OPTION-OR-PACKAGE...: installs them (as "pip install" names them) into the virtual environment VENV, which is
# made if it is not there, and keeps the system's packages in sight if CONVOY_VENV is --system-site-packages. uv does it in a tenth
# of pip's processor time; pip does it where there is no uv. Several tests may call it at a time.
from_pypi() {
  local venv=$1 installer=build/venv-installer
  shift
  (
    flock 9
    [ -x $installer/bin/pip ] || /usr/bin/python3 -m venv $installer || exit
    [ -x $installer/bin/uv ] || timeout 120 $installer/bin/pip install -q --no-compile uv || echo "there is no uv, so pip installs"
  ) 9>build/one-installs || return
  # shellcheck disable=SC2086 # no option, or one
  [ -x "$venv/bin/python" ] || /usr/bin/python3 -m venv --without-pip ${CONVOY_VENV:-} "$venv" || return
  timeout 240 $installer/bin/uv pip install -q --no-cache --python "$venv/bin/python" "$@" ||
    timeout 240 $installer/bin/pip --python "$venv/bin/python" install -q "$@"
}
