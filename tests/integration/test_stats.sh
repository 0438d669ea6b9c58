#!/usr/bin/env bash
# convoy stats: its tables say what the server's JSON says and what was sent; errors and exit statuses.
# sanitize: all
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

convoy=$build/bin/convoy
image=models/samples/ship.jpg
unset CONVOY_URL
export TZ=XYZ-05:45 # local time is not the server's
other=
trap 'status=$?; [ -z "$other" ] || kill -KILL "$other" 2>/dev/null || true; finish "$status"' EXIT
# run STATUS ARGUMENT...: convoy stats; its output lands in $work/out, what it says of errors in $work/err.
run() {
  local wanted=$1 got=0
  shift
  "$convoy" stats "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$wanted" ] || fail "convoy stats $*: exit status $got, expected $wanted: $(cat "$work/out" "$work/err")"
}
err() { grep -q -e "$1" "$work/err" || fail "the error lacks '$1': $(cat "$work/err")"; }
# holds EXPRESSION: of the document d that convoy stats --json printed.
holds() { [ "$(json "$work/out" "$1")" = True ] || fail "not so: $1: $(cat "$work/out")"; }

# agree ARGUMENT...: both tables against the JSON, each number to its last digit. What the tables say is then in $work/said,
# as JSON: "versions" and "sizes", a list of lists of words.
agree() {
  run 0 --json "$@"
  cp "$work/out" "$work/stats"
  run 0 --batches "$@"
  "$python" -S - "$work/stats" "$work/out" >"$work/said" <<'PYTHON' || fail "the tables and the JSON differ: $(cat "$work/said" "$work/stats" "$work/out")"
import datetime, json, sys
from fractions import Fraction

stats = json.load(open(sys.argv[1]))["model_stats"]
tables = [[line.split() for line in table.splitlines()] for table in open(sys.argv[2]).read().split("\n\n")]
wrong = []

def mean(what, word, total, count):
    """word is total / count with four digits that count, or - where there is nothing to divide by."""
    if count == 0:
        good = word == "-"
    else:
        decimals = len(word.partition(".")[2])
        good = len(word.replace(".", "")) >= 4 or word == "0.000"
        good = good and abs(Fraction(word) - Fraction(total) / count) <= Fraction(50001, 100000) / 10**decimals
    if not good:
        wrong.append(f"{what}: {word} for {total} / {count}")

def same(what, word, value):
    if word != str(value):
        wrong.append(f"{what}: {word} for {value}")

def us(what, word, duration):
    mean(what, word, Fraction(duration["ns"], 1000), duration["count"])

if len(tables) != 2:
    sys.exit(f"{len(tables)} tables")
versions, sizes = (table[1:] for table in tables)
if [row[:2] for row in versions] != [[s["name"], s["version"]] for s in stats]:
    wrong.append("other versions")
if len(sizes) != sum(len(s["batch_stats"]) for s in stats):
    wrong.append("another number of batch sizes")
rows = iter(sizes)
for row, s in zip(versions, stats):
    times = s["inference_stats"]
    same("success", row[2], times["success"]["count"])
    same("fail", row[3], times["fail"]["count"])
    same("images", row[4], s["inference_count"])
    same("batches", row[5], s["execution_count"])
    mean("batch", row[6], s["inference_count"], s["execution_count"])
    us("request", row[7], {key: times["success"][key] + times["fail"][key] for key in ("count", "ns")})
    for i, name in enumerate(("queue", "compute_input", "compute_infer", "compute_output")):
        us(name, row[8 + i], times[name])
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=45))
    at = datetime.datetime.fromtimestamp(s["last_inference"] // 1000, zone)
    same("last inference", row[12], at.strftime("%Y-%m-%dT%H:%M:%S") if s["last_inference"] else "never")
    for b in s["batch_stats"]:
        row = next(rows)
        same("size", " ".join(row[:4]), f"{s['name']} {s['version']} {b['batch_size']} {b['compute_infer']['count']}")
        for i, name in enumerate(("compute_input", "compute_infer", "compute_output")):
            us(name, row[4 + i], b[name])
        mean("rate", row[7], 10**9 * b["batch_size"] * b["compute_infer"]["count"], b["compute_infer"]["ns"])
if wrong:
    sys.exit("\n".join(wrong))
json.dump({"versions": versions, "sizes": sizes}, sys.stdout)
PYTHON
}
# says EXPRESSION WANTED: over the rows v and s of both tables.
says() {
  local got
  got=$(json "$work/said" "(lambda v, s: ($1))(d['versions'], d['sizes'])")
  [ "$got" = "$2" ] || fail "$1 is $got, not $2: $(cat "$work/out")"
}

echo "Without a server."
run 2 cifar10-convnet extra
run 2 --version 1
err '--version needs a model'
run 2 ..
keep_closed
run 3 --url "http://127.0.0.1:$closed"
err "no server answers at http://127.0.0.1:$closed"

models=$work/models
mkdir -p "$models/broken/1"
cp -r models/cifar10-convnet "$models/two"
cp -r "$models/two/1" "$models/two/10"
cp -r models/fashion-lenet "$models/stats"
cp models/cifar10-convnet/1/model.onnx "$models/broken/1"
echo '{"precission": "fp32"}' >"$models/broken/config.json"
echo '{"batching": {"max_batch": 7}}' >"$models/two/config.json"
start --backend null --models "$models"
export CONVOY_URL=$url

echo "Before the first image."
agree
says '[" ".join(row) for row in v]' "['stats 1 0 0 0 0 - - - - - - never', 'two 1 0 0 0 0 - - - - - - never', 'two 10 0 0 0 0 - - - - - - never']"
says 's' '[]'

echo "After some."
classify() { curl -sS -o "$work/body" "$@"; }
for _ in {1..5}; do classify --data-binary @$image "$url/v2/models/two/versions/1/classify"; done
classify -F "a=@$image" -F "b=@README.md" -F "c=@$image" "$url/v2/models/two/versions/1/classify"
classify --data-binary text "$url/v2/models/two/versions/1/classify"
"$convoy" classify --model two --version 10 $image >"$work/body"
agree
says '[row[1:5] for row in v]' "[['1', '0', '0', '0'], ['1', '6', '1', '7'], ['10', '1', '0', '1']]"
says 'sum(int(row[2]) * int(row[3]) for row in s if row[1] == "1")' 7
# The null backend takes no time: nothing to divide by.
says 'v[2][6], v[2][9:12], s[-1]' "('1.000', ['0.000', '0.000', '0.000'], ['two', '10', '1', '1', '0.000', '0.000', '0.000', '-'])"
says 'float(v[2][7]) > 0' True

echo "After many at a time: several batch sizes."
forms=()
for _ in {1..60}; do forms+=("$image"); done
gathered "$convoy" classify --model two "${forms[@]}" >"$work/body"
for _ in {1..4}; do "$convoy" classify --model two "${forms[@]}" >"$work/body"; done
agree
says 'v[2][2:5]' "['6', '0', '301']"
says 'len([row for row in s if row[1] == "10"]) > 1' True
run 0 --json
curl -fsS "$url/v2/models/stats" | cmp - "$work/out" || fail "--json is not the server's answer"
run 0
[ "$(wc -l <"$work/out")" = 4 ] || fail "without --batches: $(cat "$work/out")"
grep -q "$(printf '\033')" "$work/out" && fail "colours off a terminal"

echo "One model, one version."
agree two
says '[row[:2] for row in v]' "[['two', '1'], ['two', '10']]"
agree --model two --version 10
says '[row[:2] for row in v]' "[['two', '10']]"
agree stats
says '[row[:2] for row in v]' "[['stats', '1']]"

echo "What is not there."
run 4 nobody
err 'there is no such model: .*(status 404, request [0-9a-f]'
run 4 two --version 3
err 'version of the model does not exist'
run 4 'two/versions/1'
err 'status 404'
run 4 broken
err "precission.*(status 503"
[ ! -s "$work/out" ] || fail "output beside an error: $(cat "$work/out")"
status=0
"$convoy" stats >/dev/full 2>"$work/err" || status=$?
[ $status = 1 ] || fail "a full disk: exit status $status"
err 'standard output cannot be written'
stop
run 3
err 'no server answers'

echo "A device that takes its time, and answers that are none."
# Answers /N/... with the N-th of the pages.
cat >"$work/pages.py" <<'PYTHON'
import http.server, json
def took(count, ns):
    return {"count": count, "ns": ns}
def batch(size, *durations):
    return {"batch_size": size, **dict(zip(("compute_input", "compute_infer", "compute_output"), durations))}
def version(name, number, batches):
    of = {key: took(sum(b[key]["count"] for b in batches), sum(b[key]["ns"] for b in batches))
          for key in ("compute_input", "compute_infer", "compute_output")}
    images = sum(b["batch_size"] * b["compute_infer"]["count"] for b in batches)
    return {"name": name, "version": number, "last_inference": 1709251199999, "inference_count": images,
            "execution_count": of["compute_infer"]["count"], "from_the_future": [1, {}],
            "inference_stats": {"success": took(999999, 123456789123000), "fail": took(7, 1000), "queue": took(images, 77000), **of},
            "batch_stats": batches}
some = [batch(1, took(3, 10000), took(3, 1234567000), took(3, 0)), batch(256, took(40000, 3 * 10**12), took(40000, 7 * 10**12), took(40000, 10**9))]
good = {"model_stats": [version("resnet", "2", some), version("a-model-with-a-name-that-is-long", "11", some[:1])]}
good["model_stats"].sort(key=lambda s: s["name"])
lacks = json.loads(json.dumps(good))
del lacks["model_stats"][1]["inference_stats"]["queue"]["ns"]
pages = [(200, json.dumps(good, indent=1)), (200, json.dumps(lacks)), (200, json.dumps(good)[:-1]), (200, "<html>"), (500, "<html>"),
         (503, '{"error": "the daemon \\u001b[31mstops"}'), (200, '{"model_stats": []}')]
class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
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
agree --url "$pages/0"
says 'v[1][4:6]' "['10240003', '40003']"
says 's[2][2:]' "['256', '40000', '75000', '175000', '25.00', '1463']" # 40,000 x 256 images in 7,000 s
run 4 --url "$pages/1"
err 'queue.ns is not a count'
for page in 2 3 4; do
  run 4 --json --url "$pages/$page"
  err "not a convoyd's"
  [ ! -s "$work/out" ] || fail "page $page was printed"
done
run 4 --url "$pages/5"
err 'the daemon ?\[31mstops'
run 0 --url "$pages/6"
grep -q '^No model is READY' "$work/out" || fail "$(cat "$work/out")"
run 0 --json --url "$pages/6"
holds "d == {'model_stats': []}"
kill "$other"
other=
