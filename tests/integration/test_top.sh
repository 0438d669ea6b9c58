#!/usr/bin/env bash
# convoy top off a terminal: right rates, percentiles like Prometheus', and a daemon that goes away and comes back.
# sanitize: all
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

convoy=$build/bin/convoy
image=models/samples/ship.jpg
unset CONVOY_URL
top=
trap 'status=$?; [ -z "$top" ] || kill -KILL "$top" 2>/dev/null || true; finish "$status"' EXIT
# holds EXPRESSION: of the last line of $work/out.
holds() {
  tail -n 1 "$work/out" >"$work/line"
  [ "$(json "$work/line" "$1")" = True ] || fail "not so: $1: $(cat "$work/line")"
}
# lines N: whether there are at least so many.
lines() { [ "$(wc -l <"$work/out")" -ge "$1" ]; }
ends() {
  local wanted=$1 got=0
  shift
  "$convoy" top "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$wanted" ] || fail "convoy top $*: exit status $got, expected $wanted: $(cat "$work/out" "$work/err")"
}

echo "Arguments, and no server."
keep_closed
ends 3 --count 1 --url "http://127.0.0.1:$closed"
grep -q 'no server answers' "$work/err" || fail "$(cat "$work/err")"
ends 2 --interval 0
ends 2 extra


# watch ARGUMENTS...: convoy top in the background, its lines in $work/out.
watch() {
  : >"$work/out"
  "$convoy" top --json --url "$url" "$@" >"$work/out" 2>"$work/err" &
  top=$!
}
unwatch() {
  kill -TERM "$top"
  wait "$top" || true
  top=
}
# total LINES EXPRESSION: the sum over these lines (a Python slice) of an expression over the line d.
total() {
  "$python" -S -c '
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
print(round(sum(eval(sys.argv[3]) for d in eval("lines[" + sys.argv[2] + "]") if d["answers"]), 6))' "$work/out" "$1" "$2"
}

echo "What happens in an interval."
configure 'default_model="cifar10-convnet"'
start --backend cpu --config "$work/config.json"
watch --interval 0.2
until_true 20 lines 1 || fail "no line: $(cat "$work/err")"
before=$(wc -l <"$work/out")
for _ in {1..4}; do expect 200 --data-binary "@$image" "$url/classify"; done
expect 200 -F "a=@$image" -F "b=@$image" -F "c=@$image" "$url/classify"
expect 415 --data-binary text "$url/classify"
expect 404 --data-binary "@$image" "$url/classify?model=nobody"
expect 200 "$url/v2/models"
seen() { [ "$(total "$before:" "d['requests_per_second'] * d['seconds']")" = 7.0 ]; }
until_true 10 seen || fail "not seven requests: $(total "$before:" "d['requests_per_second'] * d['seconds']"): $(cat "$work/out")"
for pair in "not_200_per_second 2.0" "images_per_second 7.0"; do
  sum=$(total "$before:" "d['${pair% *}'] * d['seconds']")
  [ "$sum" = "${pair#* }" ] || fail "$pair is $sum: $(cat "$work/out")"
done
[ "$(total "$before:" "d['statuses_per_second'].get('415', 0) * d['seconds']")" = 1.0 ] || fail "415: $(cat "$work/out")"
# Of the model's, too: the 404 is none of its own.
[ "$(total "$before:" "d['models'][0]['requests_per_second'] * d['seconds']")" = 6.0 ] || fail "model: $(cat "$work/out")"
holds "d['models'][0]['model'] == 'cifar10-convnet' and d['models'][0]['ready'] == {'1': True} and d['models'][0]['queue_images'] == 0"
holds "d['devices'][0]['device'] == 'cpu' and d['devices'][0]['worker_up'] and d['devices'][0]['restarts'] == {}"
# A request may be counted in the interval after that of its batch: not every stage of a line has seen something.
busy() { "$python" -S -c '
import json, sys
models = [d["models"][0] for d in map(json.loads, open(sys.argv[1]))]
for stage in ("request", "decode", "queue", "input", "compute", "output"):
    seen = [m["latency_ms"][stage] for m in models if m["latency_ms"][stage]["p50"] is not None]
    assert seen and all(0 < s["p50"] <= s["p90"] <= s["p99"] for s in seen), stage
sizes = [m["batch_size"] for m in models if m["batch_size"]["mean"] is not None]
assert sizes and all(1 <= s["mean"] <= s["p99"] <= 4 for s in sizes)' "$work/out"; }
busy || fail "latencies: $(cat "$work/out")"

echo "A worker that is lost."
kill -KILL "$(workers)"
restarted() { tail -n 1 "$work/out" | grep '"worker_up":true,"restarts":{"signal":1}' >/dev/null; }
until_true 20 restarted || fail "no restart: $(tail -n 1 "$work/out")"

echo "A daemon that goes away, and one that comes in its place."
before=$(wc -l <"$work/out")
kill -KILL "$daemon"
{ wait "$daemon" || true; } 2>/dev/null
daemon=
silent() { tail -n 1 "$work/out" | grep '"answers":false,"error":"no server answers' >/dev/null; }
until_true 10 silent || fail "it does not say that no server answers: $(tail -n 1 "$work/out")"
address=127.0.0.1:$port
start --backend cpu --config "$work/config.json" --listen "$address"
[ "$url" = "http://$address" ] || fail "the daemon listens elsewhere: $url"
expect 200 --data-binary "@$image" "$url/classify"
answers() { tail -n 1 "$work/out" | grep '"answers":true.*"requests_per_second":[0-9]' >/dev/null; }
until_true 10 answers || fail "it does not see the new daemon: $(tail -n 1 "$work/out")"
unwatch
"$python" -S -c '
import json, sys
def walk(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return all(map(walk, value))
    return not isinstance(value, (int, float)) or value >= 0
sys.exit(not all(walk(json.loads(line)) for line in open(sys.argv[1])))' "$work/out" || fail "negative: $(cat "$work/out")"

echo "Plain text."
ends 0 --count 2 --interval 0.1 --url "$url"
[ "$(grep -c '^convoyd [0-9]' "$work/out")" = 2 ] || fail "not two blocks: $(cat "$work/out")"
grep -q '^cifar10-convnet  1 of 1 ' "$work/out" || fail "no model: $(cat "$work/out")"
grep -q "$(printf '\033')" "$work/out" && fail "escape sequences off a terminal"
left_out=
if [ -w /dev/full ]; then
  status=0
  "$convoy" top --count 1 --interval 0.1 --url "$url" >/dev/full 2>"$work/err" || status=$?
  [ $status = 1 ] || fail "a full disk: status $status"
  grep -q 'cannot be written' "$work/err" || fail "$(cat "$work/err")"
else
  left_out="there is no /dev/full to write to"
fi
stop

echo "Counts that fall, and answers that are none."
# Each GET /metrics is answered with the next file; when there is no next, with the last one.
cat >"$work/script.py" <<'PYTHON'
import http.server, os, sys
folder, asked = sys.argv[1], 0
class Script(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        global asked
        while not os.path.exists(f"{folder}/{asked}"):
            asked -= 1
        text = open(f"{folder}/{asked}", "rb").read()
        asked += 1
        self.send_response(503 if text == b"refused" else 200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *arguments):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Script)
print(server.server_port, flush=True)
server.serve_forever()
PYTHON
mkdir "$work/script"
count() { printf 'convoyd_images_total{model="m"} %s\nconvoyd_requests_total{model="m",route="/classify",status="200"} %s\n' "$1" "$2"; }
count 1000 100 >"$work/script/0"
count 1010 105 >"$work/script/1"
count 8 4 >"$work/script/2" # another daemon
printf refused >"$work/script/3"
echo '<html>no metrics' >"$work/script/4"
{ count 9 5; printf 'convoyd_images_total{model="m"} 12'; } >"$work/script/5" # cut off
# act: starts the scripted server with the first file.
act() {
  if [ -n "$daemon" ]; then
    kill "$daemon"
    wait "$daemon" || true
  fi
  : >"$work/port"
  "$python" "$work/script.py" "$work/script" >"$work/port" &
  daemon=$!
  until_true 20 grep -q . "$work/port" || fail "the scripted server did not start"
  url=http://127.0.0.1:$(cat "$work/port")
}
act
ends 0 --json --interval 0.1 --count 5 --url "$url"
for pair in '0 10.0' '1 8.0' '4 1.0'; do
  sum=$(total "${pair% *}:$((${pair% *} + 1))" "d['images_per_second'] * d['seconds']")
  [ "$sum" = "${pair#* }" ] || fail "line ${pair% *}: $sum images, expected ${pair#* }: $(cat "$work/out")"
done
[ "$(sed -n 's/.*"restarted":\([a-z]*\).*/\1/p' "$work/out" | tr '\n' ' ')" = 'false true false ' ] || fail "$(cat "$work/out")"
[ "$(sed -n '3s/.*"error":"\(.*\)".*/\1/p' "$work/out")" = '/metrics was answered with status 503; is the URL right?' ] || fail "$(cat "$work/out")"
sed -n 4p "$work/out" | grep 'not a convoyd' >/dev/null || fail "$(cat "$work/out")"
rm "$work"/script/*
echo nothing >"$work/script/0"
act
ends 4 --count 1 --url "$url"

echo "The same percentiles as Prometheus'."
command -v promtool >/dev/null || skip "${left_out:+$left_out, and }there is no promtool (package prometheus); the rest passed"
# Counts of buckets, of two readings; the differences have a percentile past the last bound.
buckets() { local bound; for bound in 0.001 0.0025 0.01 +Inf; do printf 'convoyd_request_seconds_bucket{model="m",le="%s"} %s\n' $bound "$1"; shift; done; }
rm "$work"/script/*
buckets 5 6 7 8 >"$work/script/0"
buckets 35 81 95 99 >"$work/script/1"
act
ends 0 --json --interval 0.1 --count 1 --url "$url"
mine=$(json "$work/out" "' '.join('%.9g' % (d['models'][0]['latency_ms']['request'][p] / 1000) for p in ('p50', 'p90'))")
# Prometheus says the highest bound of what lies beyond it, convoy says that it does not know.
holds "d['models'][0]['latency_ms']['request']['p99'] is None"
cat >"$work/rules.yml" <<'RULES'
rule_files: []
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
RULES
for pair in '0.001 5+30' '0.0025 6+75' '0.01 7+88' '+Inf 8+91'; do
  printf '      - series: bucket{le="%s"}\n        values: %sx1\n' "${pair% *}" "${pair#* }" >>"$work/rules.yml"
done
echo '    promql_expr_test:' >>"$work/rules.yml"
read -ra values <<<"$mine"
for pair in "0.5 ${values[0]}" "0.9 ${values[1]}"; do
  # In whole nanoseconds, because promtool compares to the last bit.
  printf '      - expr: round(histogram_quantile(%s, bucket - bucket offset 1m) * 1e9)\n        eval_time: 1m\n        exp_samples: [{labels: "{}", value: %s}]\n' \
    "${pair% *}" "$("$python" -S -c "print(round(${pair#* } * 1e9))")" >>"$work/rules.yml"
done
promtool test rules "$work/rules.yml" >"$work/promtool" 2>&1 || fail "convoy says $mine; promtool: $(cat "$work/promtool")"
[ -z "$left_out" ] || skip "$left_out; the rest passed"
