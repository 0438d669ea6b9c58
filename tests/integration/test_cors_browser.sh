#!/usr/bin/env bash
# all: a browser is a download of 100 MB
# Pages of other sites in Chromium, with the preflights that it sends: one of an allowed origin may ask and read, with a key; one of
# another origin reads nothing.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
command -v chromium chromium-browser google-chrome >/dev/null || skip "there is no chromium to open a page with"
(umask 077; "$build/bin/convoy" key page infer >"$work/keys" 2>"$work/key")
key=$(tail -n 1 "$work/key")

mkfifo "$work/url"
PYTHONDONTWRITEBYTECODE=1 timeout 120 "$python" tests/tools/cors_page.py "$key" <"$work/url" >"$work/site" 2>"$work/page" &
proxy=$!
exec 7>"$work/url"
site_serves() { [ -s "$work/site" ]; }
until_true 20 site_serves || fail "the site does not start: $(cat "$work/page")"
configure 'backend="null"' 'default_model="cifar10-convnet"' "auth={\"keys\": \"$work/keys\", \"anonymous\": []}" \
  "http={\"cors_origins\": [\"http://127.0.0.1:$(cat "$work/site")\"]}"
launch --config "$work/config.json" --models models
admin() { curl -fs --unix-socket "$work/convoyd/admin-$port.sock" -o /dev/null http://localhost/v2/health/ready; }
until_true 30 admin || fail "convoyd was not ready within 30 s"
echo "$url" >&7
wait $proxy || fail "the page: $(cat "$work/page")"
proxy=
stop
echo passed
