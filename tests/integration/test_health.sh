#!/usr/bin/env bash
# convoy health: its exit status says whether a server is ready, not ready, not there, silent or another's.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

convoy=$build/bin/convoy
# says STATUS WORDS ARGUMENTS...
says() {
  local wanted=$1 words=$2 status=0
  shift 2
  timeout 20 "$convoy" health "$@" >"$work/said" 2>&1 || status=$?
  [ $status -eq "$wanted" ] || fail "convoy health $*: status $status, expected $wanted: $(cat "$work/said")"
  grep -qF -- "$words" "$work/said" || fail "convoy health $* does not say $words: $(cat "$work/said")"
}

echo "Ready: no key is needed."
"$convoy" key probe infer >"$work/keys" 2>/dev/null
chmod 600 "$work/keys"
configure "auth={\"keys\": \"$work/keys\", \"anonymous\": []}" 'models="models"'
start --config "$work/config.json"
expect 401 "$url/v2/models"
says 0 ready --url "$url"
[ "$(cat "$work/said")" = ready ] || fail "$(cat "$work/said")"
says 0 alive --live --url "$url"
says 0 '"ready":true' --json --url "$url"
says 0 ready --url "unix:$(find "$work/convoyd" -name 'admin-*.sock')"

echo "A server that answers nothing: in time."
stand_still "$(front)"
says 4 "did not answer within 1000 ms" --timeout 1 --url "$url"
kill -CONT "$(front)"
stop
says 3 "no server answers at $url" --url "$url"

echo "Not ready, and alive: a backend that cannot start."
mkdir "$work/bin"
cp "$build/bin/convoyd" "$build/bin/convoy-worker" "$work/bin/"
build=$work launch --models models --backend cpu
says 1 "not ready" --url "$url"
says 0 alive --live --url "$url"
stop

echo "What is no convoyd, and a wrong command line."
"$python" -u -m http.server --bind 127.0.0.1 --directory "$work" 0 >"$work/http" 2>&1 &
proxy=$!
until_true 20 grep -q 'port [0-9]' "$work/http" || fail "Python's HTTP server did not start"
says 4 "has status 404 and is not a convoyd's" --url "http://127.0.0.1:$(sed -n 's/.*port \([0-9]*\) .*/\1/p' "$work/http")"
says 2 "'now' is one argument too many" now
says 2 "--timeout is '0', it must be a whole number from 1 to 3600" --timeout 0
echo "passed"
