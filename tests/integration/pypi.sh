# shellcheck shell=bash
# Packages of PyPI for tests, on top of lib.sh.

# pip_into VENV PACKAGE...: by the pip that python3-venv brings for new environments, from its file: unpacking that takes 4 s of
# processor time.
pip_into() {
  local venv=$1 wheel
  shift
  wheel=$(compgen -G '/usr/share/python-wheels/pip-*.whl') || {
    echo "python3-pip-whl is not installed"
    return 1
  }
  PYTHONPATH=$wheel timeout 240 "$venv/bin/python" -m pip install -q "$@"
}

# from_pypi VENV OPTION-OR-PACKAGE...: installs them (as "pip install" names them) into the virtual environment VENV, which is
# made if it is not there, and keeps the system's packages in sight if CONVOY_VENV is --system-site-packages. uv does it in a tenth
# of pip's processor time; pip does it where there is no uv. Several tests may call it at a time.
from_pypi() {
  local venv=$1 installer=build/venv-installer
  shift
  (
    flock 9
    [ -x $installer/bin/python ] || /usr/bin/python3 -m venv --without-pip $installer || exit
    [ -x $installer/bin/uv ] || pip_into $installer --no-compile uv || echo "there is no uv, so pip installs"
  ) 9>build/one-installs || return
  # shellcheck disable=SC2086 # no option, or one
  [ -x "$venv/bin/python" ] || /usr/bin/python3 -m venv --without-pip ${CONVOY_VENV:-} "$venv" || return
  timeout 240 $installer/bin/uv pip install -q --no-cache --python "$venv/bin/python" "$@" ||
    pip_into "$venv" "$@"
}
