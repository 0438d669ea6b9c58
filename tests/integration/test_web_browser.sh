#!/usr/bin/env bash
# all: a browser is a download of 100 MB, and the test takes half a minute
# The page at / in Chromium: every view, keys, a proxy's prefix, phones, dark, the keyboard, axe-core (from PyPI) for readers of screens.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
command -v chromium chromium-browser google-chrome >/dev/null || skip "there is no chromium to open the page with"
needs_pillow
in_browser() { PYTHONDONTWRITEBYTECODE=1 CONVOY_DAEMON=$daemon timeout 180 "$python" tests/tools/web_page.py "$@" || fail "the page, $1: see above"; }

find_axe() { axe=$(find build -maxdepth 8 -path 'build/venv-axe/*' -name axe.min.js | head -n 1); }
find_axe
if [ -z "$axe" ]; then
  { /usr/bin/python3 -m venv build/venv-axe && timeout 120 build/venv-axe/bin/python -m pip install -q axe-core-python; } >"$work/pip" 2>&1 ||
    echo "Without axe-core: $(tail -n 1 "$work/pip")"
  find_axe
fi
names=$(cd models && printf '%s\n' */1/model.onnx | sed 's|/.*||; s/.*/"&"/' | paste -sd,)
options=('backend="cpu"' 'default_model="cifar10-resnet"' 'model_control="explicit"' "repository={\"load_at_start\": [$names]}")

echo "Every view."
configure "${options[@]}" 'auth={"loopback_admin": true}'
start --config "$work/config.json"
in_browser open "$url/" "$work" ${axe:+"$axe"}
if command -v nginx >/dev/null; then
  echo "Below a prefix."
  at=$("$python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
  cat >"$work/nginx.conf" <<CONF
daemon off; master_process off; pid $work/nginx.pid; error_log stderr;
events {}
http {
  access_log off; client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3; uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
  server {
    listen 127.0.0.1:$at;
    location /convoy/ { proxy_pass $url/; client_max_body_size 32m; }
  }
}
CONF
  nginx -c "$work/nginx.conf" -e stderr 2>"$work/nginx" &
  proxy=$!
  until_true 10 curl -fs -o /dev/null "http://127.0.0.1:$at/convoy/" || fail "nginx: $(cat "$work/nginx")"
  in_browser prefix "http://127.0.0.1:$at/convoy/"
  kill "$proxy"
  wait "$proxy" || true
  proxy=
fi
stop

echo "Keys."
(umask 077; : >"$work/keys")
for role in infer infer,metrics,admin; do "$build/bin/convoy" key "${role//,/-}" "$role"; done >>"$work/keys" 2>"$work/made"
mapfile -t made < <(grep -o 'convoy-[0-9a-f]*$' "$work/made")
configure "${options[@]}" "auth={\"keys\": \"$work/keys\", \"anonymous\": []}"
start --config "$work/config.json"
in_browser keys "$url/" "${made[@]}"
stop
echo "passed"
