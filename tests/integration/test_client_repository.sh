#!/usr/bin/env bash
# convoy load, convoy unload and convoy models --all: what they do to a server, what they say, exit statuses.
# sanitize: all
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

convoy=$build/bin/convoy
image=models/samples/ship.jpg
unset CONVOY_URL
other=
trap 'status=$?; [ -z "$other" ] || kill -KILL "$other" 2>/dev/null || true; finish "$status"' EXIT
# run STATUS COMMAND ARGUMENT...: its output lands in $work/out, what it says of errors in $work/err.
run() {
  local wanted=$1 got=0
  shift
  "$convoy" "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$wanted" ] || fail "convoy $*: exit status $got, expected $wanted: $(cat "$work/out" "$work/err")"
  [ "$wanted" = 0 ] || [ ! -s "$work/out" ] || fail "convoy $*: output beside an error: $(cat "$work/out")"
}
out() { grep -qE -e "$1" "$work/out" || fail "the output lacks '$1': $(cat "$work/out")"; }
err() { grep -q -e "$1" "$work/err" || fail "the error lacks '$1': $(cat "$work/err")"; }
# index LINE...: the versions and states that convoy models --all shows.
# shellcheck disable=SC2317 # until_true calls it
index() { [ "$("$convoy" models --all | sed 's/  */ /g')" = "$(printf '%s\n' "$@")" ]; }
is() { index "$@" || fail "convoy models --all: $("$convoy" models --all)"; }
# shellcheck disable=SC2317 # until_true calls it
in_use() { [ "$(sample convoyd_slots_in_use)" = 1 ]; }
answers() { [ "$("$convoy" classify --json --model "$1" $image | "$python" -S -c 'import json, sys; print(json.load(sys.stdin)["version"])')" = "$2" ] || fail "version $2 of $1 does not answer"; }

echo "Without a server."
run 2 load
err 'name a model'
run 2 unload one two
err "'two' is one argument too many"
run 2 load ..
run 2 load one --timeout 0
err '1 to 86400'
keep_closed
for command in load unload; do
  run 3 $command --url "http://127.0.0.1:$closed" one
  err "^convoy $command: no server answers at http://127.0.0.1:$closed"
done

models=$work/models
mkdir "$models"
cp -r models/cifar10-convnet "$models/one"
cp -r models/fashion-lenet "$models/two"
mkdir -p "$models/broken/1"
head -c 1000 models/cifar10-convnet/1/model.onnx >"$models/broken/1/model.onnx"

echo "A server that loads by itself."
for control in none poll; do
  configure "model_control=\"$control\""
  start --backend null --models "$models" --config "$work/config.json"
  export CONVOY_URL=$url
  for command in load unload; do
    run 4 $command one
    err "model_control is \"$control\".*explicit.*(status 400, request [0-9a-f]"
  done
  answers one 1
  run 0 models --all
  out '^broken +1 +UNAVAILABLE: .*/broken/1/model.onnx'
  stop
done
run 3 load one
err 'no server answers'

echo "Loading and unloading."
configure 'model_control="explicit"' 'repository={"load_at_start": ["two"]}' 'drain_timeout_ms=500'
start --backend null --models "$models" --config "$work/config.json"
export CONVOY_URL=$url
is 'broken 1 UNAVAILABLE: unloaded' 'one 1 UNAVAILABLE: unloaded' 'two 1 READY'
run 0 models
[ "$(wc -l <"$work/out")" = 1 ] || fail "convoy models shows what is not loaded: $(cat "$work/out")"
run 4 classify --model one $image
err 'not loaded'
run 0 load one
out '^one is loaded$'
[ ! -s "$work/err" ] || fail "$(cat "$work/err")"
answers one 1 # from the moment that the command ends
run 0 load one
run 0 load --url "$url/" --json one
[ "$(cat "$work/out")" = '{}' ] || fail "--json: $(cat "$work/out")"
run 0 models --all --json
[ "$(json "$work/out" '[m["name"] + m["state"] for m in d["models"]]')" = "['brokenUNAVAILABLE', 'oneREADY', 'twoREADY']" ] || fail "$(cat "$work/out")"
run 0 unload one
out '^one is unloaded$'
until_true 10 index 'broken 1 UNAVAILABLE: unloaded' 'one 1 UNAVAILABLE: unloaded' 'two 1 READY' || fail "one is still there: $("$convoy" models --all)"
run 4 classify --model one $image
run 0 unload --json one # once more is no error
[ "$(cat "$work/out")" = '{}' ] || fail "--json: $(cat "$work/out")"
answers two 1

echo "What cannot be."
for command in load unload; do
  run 4 $command nobody
  err "^convoy $command: there is no model nobody .*(status 404, request [0-9a-f]"
  run 4 $command 'two/../one'
  err 'status 404'
  run 4 $command ' '
  err 'status 404'
done
run 4 load broken
err "^convoy load: model broken, version 1, could not be loaded: .*/broken/1/model.onnx.*(status 400, request [0-9a-f]"
until_true 10 index "broken 1 UNAVAILABLE: $(sed -n 's/.*loaded: \(.*\) (status.*/\1/p' "$work/err")" 'one 1 UNAVAILABLE: unloaded' 'two 1 READY' ||
  fail "after a model that could not be loaded: $("$convoy" models --all)"
status=0
"$convoy" load two >/dev/full 2>"$work/err" || status=$?
[ $status = 1 ] || fail "a full disk: exit status $status"
err 'standard output cannot be written'

echo "A new version that is broken, then mended."
mkdir "$models/two/2"
head -c 1000 models/fashion-lenet/1/model.onnx >"$models/two/2/model.onnx"
run 4 load two
err 'model two, version 2, could not be loaded'
answers two 1
cp models/fashion-lenet/1/model.onnx "$models/two/2/model.onnx"
run 0 load two
answers two 2
run 0 unload broken
until_true 10 index 'broken 1 UNAVAILABLE: unloaded' 'one 1 UNAVAILABLE: unloaded' 'two 1 READY' 'two 2 READY' || fail "$("$convoy" models --all)"

echo "load waits until it is done, or for as long as it was told."
worker=$(workers)
stand_still "$worker"
run 4 load --timeout 1 one
err 'did not answer within 1000 ms'
"$convoy" load one >"$work/waited" 2>&1 &
other=$!
sleep 0.3
kill -0 $other 2>/dev/null || fail "load did not wait: $(cat "$work/waited")"
is 'broken 1 UNAVAILABLE: unloaded' 'one 1 LOADING' 'two 1 READY' 'two 2 READY'
kill -CONT "$worker"
wait $other || fail "load: $(cat "$work/waited")"
other=
answers one 1

echo "unload does not wait for requests, which are answered."
stand_still "$worker"
"$convoy" classify --model one $image >"$work/waited" 2>&1 &
other=$!
until_true 10 in_use || fail "the image does not arrive"
run 0 unload one
is 'broken 1 UNAVAILABLE: unloaded' 'one 1 UNLOADING' 'two 1 READY' 'two 2 READY'
kill -CONT "$worker"
wait $other || fail "the request that one had: $(cat "$work/waited")"
other=
until_true 10 index 'broken 1 UNAVAILABLE: unloaded' 'one 1 UNAVAILABLE: unloaded' 'two 1 READY' 'two 2 READY' || fail "one is still there: $("$convoy" models --all)"

echo "A server that stops meanwhile: it gives up after drain_timeout_ms."
stand_still "$worker"
"$convoy" load one >"$work/waited" 2>&1 &
other=$!
until_true 10 index 'broken 1 UNAVAILABLE: unloaded' 'one 1 LOADING' 'two 1 READY' 'two 2 READY' || fail "$("$convoy" models --all)"
kill -TERM "$daemon"
status=0
wait $other || status=$?
other=
[ $status = 4 ] || fail "load while the server stops: exit status $status: $(cat "$work/waited")"
grep -q 'the server is stopping.*(status 503' "$work/waited" || fail "load while the server stops: $(cat "$work/waited")"
kill -CONT "$worker" 2>/dev/null || true
# No second SIGTERM, as stop sends: one that comes when the daemon is done has no receiver.
status=0
wait "$daemon" || status=$?
daemon=
[ $status = 0 ] || fail "convoyd ended with status $status"

echo "Answers that are none."
cat >"$work/pages.py" <<'PYTHON'
import http.server
pages = [(200, "<html>"), (200, "[]"), (500, "<html>"), (503, '{"error": "the daemon \\u001b[31mstops"}'), (200, "")]
class Pages(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        status, text = pages[int(self.path.split("/")[1])]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *arguments):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Pages)
print(server.server_port, flush=True)
server.serve_forever()
PYTHON
"$python" "$work/pages.py" >"$work/port" &
other=$!
until_true 20 grep -q . "$work/port" || fail "the server of pages did not start"
pages=http://127.0.0.1:$(cat "$work/port")
for page in 0 1 2 4; do
  for command in load unload; do
    run 4 $command --json --url "$pages/$page" one
    err "not a convoyd's"
  done
done
for page in 0 2 4; do
  run 4 models --all --url "$pages/$page"
  err "not a convoyd's"
done
run 4 load --url "$pages/3" one
err 'the daemon ?\[31mstops'
run 0 models --all --url "$pages/1"
out '^The server has no models\.$'
kill "$other"
other=
echo "passed"
