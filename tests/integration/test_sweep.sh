#!/usr/bin/env bash
# convoy bench --sweep and --compare: the page says what --json says, errors are marked, what was measured survives
# Ctrl-C and the server's end, and no file that --compare is given makes it fall over.
# sanitize: all
# shellcheck source=tests/integration/client.sh
. "$(dirname "$0")/client.sh"

images=models/samples

# page.py PAGE JSON: the page is well-formed, asks nothing of anybody, and shows the numbers of --json.
cat >"$work/page.py" <<'PYTHON'
import html, html.parser, json, re, sys, xml.etree.ElementTree as xml
# A page has no character that turns the text around, or that XML cannot hold.
text, wanted = open(sys.argv[1], encoding="utf-8").read(), json.loads(open(sys.argv[2], encoding="utf-8").read().replace("\u202e", "\ufffd"))
class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.content, self.open = [], {}, []
    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open.append((tag, dict(attributes).get("id")))
    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()
    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag, tag
    def handle_data(self, data):
        for tag, name in self.open:
            if name:
                self.content[name] = self.content.get(name, "") + data
page = Page()
page.feed(text)
page.close()
assert page.open == []
ids = [attributes["id"] for tag, attributes in page.tags if "id" in attributes]
assert len(ids) == len(set(ids)), ids
for tag, attributes in page.tags:
    assert tag not in ("link", "iframe", "object", "embed", "form", "base", "img") and not any(name.startswith("on") for name in attributes), tag
    assert tag != "script" or attributes["type"] == "application/json"
    assert not {"src", "href", "srcset"} & set(attributes), attributes
policy = [attributes["content"] for tag, attributes in page.tags if attributes.get("http-equiv") == "Content-Security-Policy"]
assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"], policy
visible = re.sub(r"<script.*?</script>", "", text, flags=re.S)
assert not re.search(r"url\(|@import", text)
xml.fromstring(text)
space = "{http://www.w3.org/1999/xhtml}"
def rows(name):
    table = next(table for table in xml.fromstring(text).iter(space + "table") if table.get("id") == name)
    return [["".join(cell.itertext()) for cell in row] for row in table.find(space + "tbody")]
def number(value):
    return "-" if value is None else ("%.3f" if value < 100 else "%.1f") % value
def close(shown, value):
    return shown == number(value) or abs(float(shown) - value) <= 0.001 * value + 0.0006
if "loads" in wanted: # a comparison
    assert json.loads(page.content["comparison"]) == wanted
    shown = rows("ratios")
    assert len(shown) == len(wanted["loads"])
    for row, load in zip(shown, wanted["loads"]):
        if load["in"] != "both":
            assert row[2] == {"first": "only in A", "second": "only in B"}[load["in"]], row
            continue
        for cell, key in zip(row[2:], ("requests_per_second", "p50", "p90", "p99", "p99.9")):
            ratio = load[key]["ratio"] # none where one of both answered nothing: the server of the first may have gone away before
            assert cell == "-" if ratio is None else cell.endswith("\u00d7%.3f %s" % (ratio, load[key]["verdict"])), (cell, load[key])
    assert [line for line in wanted["differences"] if line.replace("\x1b", "\ufffd") not in html.unescape(visible)] == []
    sys.exit()
assert json.loads(page.content["sweep"]) == wanted
facts = page.content["facts"].split("\n")
for fact in (wanted["model"], wanted["version"], wanted["device"], wanted["precision"], wanted["server"], wanted["machine"], wanted["url"], wanted["date"], "convoy " + wanted["client"]):
    assert fact and fact in facts, (fact, facts)
points = wanted["points"]
shown = rows("points")
assert len(shown) == len(points)
for row, point in zip(shown, points):
    latency = point["latency_ms"]
    name = f"{point['rate']:g} requests/s due" if "rate" in point else f"{point['connections']} connection" + "s" * (point["connections"] > 1)
    errors = sum(n for status, n in point["statuses"].items() if status != "200") + point["no_answer"] + point["not_sent"]
    assert row[0] == name and row[2] == "%.1f" % point["requests_per_second"] and row[3] == "%.1f" % point["images_per_second"], row
    assert all(close(cell, latency[key]) for cell, key in zip(row[4:9], ("mean", "p50", "p90", "p99", "p99.9")) if latency[key] is not None), (row, latency)
    assert row[11] == str(point["answered"]) == str(sum(n for bin, n in latency["bins"])), row
    assert (row[1] == "none") == (errors == 0), row
    for status, n in point["statuses"].items():
        assert status == "200" or f"{n} answered {status}" in row[1], row
    # Percentiles follow from the bins, within what is stated.
    bins, rank = latency["bins"], -(-point["answered"] // 2)
    for bin, n in bins:
        rank -= n
        if rank <= 0:
            assert abs(latency["p50"] * 1000 / 1.01 ** (bin + 0.5) - 1) < 0.006 or latency["p50"] * 1000 == latency["max_us"], (bin, latency["p50"])
            break
    assert abs(point["requests_per_second"] * point["seconds"] - point["answered"]) < 1e-6 * point["answered"] + 1e-6
stages = rows("stage-table")
for row, point in zip(stages, points):
    timing = point["timing"]
    if timing["answers"] == 0:
        continue
    for cell, value in zip(row[2:6], (timing["wait_us"] + timing["decode_us"], timing["queue_us"], timing["input_us"] + timing["output_us"], timing["compute_us"])):
        assert close(cell, value / 1000), (row, timing)
    assert row[8] == str(timing["answers"])
svgs = re.findall(r"<svg.*?</svg>", text, re.S)
assert len(svgs) == 3 + (len(points) if len(points) > 1 else 0), len(svgs)
answered = [p for p in points if p["answered"]]
assert len(re.findall(r"(?<= ms at )", svgs[0])) == 4 * len(answered)
assert svgs[0].count('"mark hollow"') == 4 * sum(row[1] != "none" for row, p in zip(shown, points) if p["answered"])
PYTHON
page() { "$python" "$work/page.py" "$1" "$work/out" || fail "the page $1 differs from --json"; }

configure 'default_model="cifar10-convnet"'
start --backend cpu --config "$work/config.json"
export CONVOY_URL=$url

echo "A closed loop."
run 0 bench --sweep --json --seconds 0.6 --connections 1,2,8 --report "$work/closed.html" $images
page "$work/closed.html"
cp "$work/out" "$work/closed.json"
[ ! -s "$work/err" ] || fail "a progress line off a terminal: $(cat "$work/err")"
holds "[p['connections'] for p in d['points']] == [1, 2, 8] and all(p['loop'] == 'closed' for p in d['points'])"
holds "d['model'] == 'cifar10-convnet' and d['version'] == '1' and d['device'] == 'cpu' and d['precision'] == 'fp32' and d['planned'] == 3 and d['ended'] == ''"
holds "d['server'].startswith('convoyd ') and d['client'] == d['server'].split()[1] and d['url'] == '$url' and 'Linux' in d['machine']"
holds "d['seconds'] == 0.6 and d['warm_up_seconds'] == 0.3 and all(0.5 < p['seconds'] < 10 for p in d['points'])"
holds "all(p['statuses'] == {'200': p['answered']} and p['answered'] > 5 for p in d['points'])"
# Little's law: connections that are never idle. The warm-up does not count.
holds "all(0.5 < p['requests_per_second'] * p['latency_ms']['mean'] / 1000 / p['connections'] < 1.01 for p in d['points'])"
# The server's stages are a part of what the client measures.
holds "all(0 < p['timing']['compute_us'] < p['timing']['total_us'] <= p['timing']['client_us'] for p in d['points'])"
holds "all(p['timing']['client_us'] / 1000 < 2 * p['latency_ms']['mean'] for p in d['points'])"
holds "all(p['timing']['answers'] <= p['answered'] and p['timing']['batch_size'] >= 1 for p in d['points'])"

echo "An open loop, with images in a form; text."
run 0 bench --sweep --seconds 1 --rate 20,60 --batch 3 --json --report "$work/open.html" $images
page "$work/open.html"
holds "[p['rate'] for p in d['points']] == [20, 60] and d['images_per_request'] == 3 and all(p['connections'] == 128 for p in d['points'])"
holds "all('send_lag_ms' in p and p['images'] == 3 * p['answered'] for p in d['points'])"
# 60 by chance in a second (Poisson): one run in 5e9 has 17 or less, or 115 or more.
holds "17 < d['points'][1]['answered'] < 115"
run 0 bench --sweep --seconds 0.2 --connections 2 $images
out '^model cifar10-convnet version 1 on cpu, convoyd '
out '^2 connections  *[0-9.]*  *[0-9.]* '
# A stalled server holds up every request that falls due meanwhile: they count from when they were due. Every connection finds
# its answer late, and those that are due later wait: those of the first 1.7 s of a stall of 2 s are late by more than 0.3 s, about
# 68 of 200 that arrive by chance; one run in 5e13 has less than a tenth of them there.
answered() { answer_to /metrics | awk '/^convoyd_requests_total\{.*classify".*status="200"/ { n += $NF } END { print n + 0 }'; }
before=$(answered)
"$convoy" bench --sweep --json --rate 40 --connections 2 --seconds 5 --report "$work/stall.html" $images >"$work/out" &
sweep=$!
# The daemon stands when the measurement has begun: the warm-up of a second sends some 40, and 100 or more once in 1e14 runs.
# shellcheck disable=SC2317 # until_true calls it
measured() { [ "$(answered)" -ge $((before + 100)) ]; }
until_true 20 measured || fail "only $(($(answered) - before)) requests come"
stand_still "$(front)"
sleep 2
kill -CONT "$(front)"
wait $sweep || [ $? = 1 ] || fail "a stalled server ends the sweep: $(cat "$work/out")"
page "$work/stall.html"
holds "d['points'][0]['latency_ms']['max_us'] > 7e5 and d['points'][0]['latency_ms']['p90'] > 300 and d['points'][0]['send_lag_ms']['p90'] > 100"
grep -q 'id="late"' "$work/stall.html" || fail "the page does not say that requests were sent late"

echo "What is wrong."
run 4 bench --sweep --seconds 0.2 --model absent --report "$work/none.html" $images
err 'no request of the warm-up was answered 200: .* answered 404'
run 2 bench --sweep --rate 1,2 --connections 1,2 $images
run 2 bench --rate 1,2 $images
err 'only --sweep'
run 2 bench --report "$work/none.html" $images
run 1 bench --sweep "$work/absent"
before=$(curl -fs "$url/metrics" | grep '^convoyd_images_total')
for target in "$work/absent/report.html" "$work" /dev/null/report.html; do
  run 1 bench --sweep --report "$target" $images
  err "'$target' cannot be written: "
done
[ "$(curl -fs "$url/metrics" | grep '^convoyd_images_total')" = "$before" ] || fail "images were sent, though the report cannot be written"
# By a descriptor: by the device's name a mistake in what is tested, run as root, would replace it.
run 1 bench --sweep --seconds 0.2 --connections 1 --json --report /dev/fd/8 $images 8>/dev/full
err "'/dev/fd/8' cannot be written: No space left on device"
holds "len(d['points']) == 1"
keep_closed
run 3 bench --sweep --url "http://127.0.0.1:$closed" --report "$work/none.html" $images
run 3 bench --sweep --url "http://user:secret@127.0.0.1:$closed" --rate 5 --report "$work/none.html" $images
[ -z "$(find "$work" -maxdepth 1 \( -name 'none*' -o -name '*.tmp' \))" ] || fail "files are left: $(ls "$work")"

echo "Ctrl-C and SIGTERM."
# Until then a signal ends the program, or is ignored: by a shell's background jobs.
# shellcheck disable=SC2317 # until_true calls it
catches_sigint() { ((16#$(awk '/^SigCgt/ { print $2 }' "/proc/$1/status") & 2)); }
# interrupted SIGNAL LOADS REPORT ARGUMENT...: sends the signal once LOADS loads are measured.
# shellcheck disable=SC2317 # until_true calls it
measured() { [ "$(grep -c ' connection' "$work/out")" -ge "$1" ]; }
interrupted() {
  local signal=$1 loads=$2 report=$3 status=0
  shift 3
  : >"$work/out"
  env --default-signal=INT "$convoy" bench --sweep --seconds 0.5 --connections 1,2,3,4,5,6,7,8,9,10,11,12 --report "$report" "$@" $images >"$work/out" 2>"$work/err" &
  sweep=$!
  until_true 30 catches_sigint $sweep || fail "SIGINT is not caught: $(cat "$work/out" "$work/err")"
  until_true 30 measured "$loads" || fail "no load is measured: $(cat "$work/out" "$work/err")"
  kill "-$signal" $sweep
  wait $sweep || status=$?
  [ $status = $((128 + $(kill -l "$signal"))) ] || fail "SIG$signal: status $status"
}
for signal in INT TERM; do
  interrupted $signal 2 "$work/$signal.html"
  loads=$(grep -c ' connection' "$work/out")
  err "interrupted; $loads of 12 loads were measured, the report has them"
  out "^$loads of 12 loads were measured: the sweep was interrupted"
  grep -q "$loads of 12 loads were measured: the sweep was interrupted" "$work/$signal.html" || fail "the page does not say that it is cut short"
done
run 0 bench --compare --json "$work/INT.html" "$work/TERM.html"
holds "d['loads'][0]['in'] == 'both' and len(d['first']['points']) >= 2 and d['first']['ended'] == 'the sweep was interrupted'"
# No load that was cut off is among them.
holds "all(p['seconds'] > 0.4 and p['no_answer'] == 0 for p in d['first']['points'] + d['second']['points'])"
# One that waits for when the next request is due.
# shellcheck disable=SC2317 # until_true calls them
has_a_connection() { [ "$(find "/proc/$1/task" -mindepth 1 -maxdepth 1 | wc -l)" = 2 ]; }
# shellcheck disable=SC2317
has_ended() { ! kill -0 "$1"; }
env --default-signal=INT "$convoy" bench --sweep --seconds 600 --rate 0.02 --connections 1 $images >"$work/out" 2>"$work/err" &
sweep=$!
until_true 30 catches_sigint $sweep || fail "SIGINT is not caught: $(cat "$work/out" "$work/err")"
until_true 30 has_a_connection $sweep || fail "no connection"
kill -INT $sweep
until_true 10 has_ended $sweep || { kill -KILL $sweep; fail "it waits on"; }
wait $sweep && fail "SIGINT: status 0"
# One that waits for an answer that does not come.
cat >"$work/silent.py" <<'PYTHON'
import http.server, time
class Silent(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(404)
    def do_POST(self):
        print("asked", flush=True)
        time.sleep(60)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent)
server.daemon_threads = True
print("port", server.server_port, flush=True)
server.serve_forever()
PYTHON
"$python" "$work/silent.py" >"$work/silent" 2>/dev/null &
proxy=$!
until_true 20 grep -q port "$work/silent" || fail "the silent server did not start"
env --default-signal=INT "$convoy" bench --sweep --url "http://127.0.0.1:$(awk '/port/ { print $2 }' "$work/silent")" --report "$work/none.html" $images >"$work/out" 2>"$work/err" &
sweep=$!
until_true 20 grep -q asked "$work/silent" || fail "nothing is asked: $(cat "$work/out" "$work/err")"
kill -INT $sweep
until_true 10 has_ended $sweep || { kill -KILL $sweep; fail "it waits on for an answer"; }
wait $sweep && fail "SIGINT: status 0"
err 'interrupted; 0 of 7 loads were measured, there is no report'
[ ! -e "$work/none.html" ] || fail "a report of nothing"
kill $proxy
wait $proxy 2>/dev/null || true
proxy=

echo "The server goes away."
: >"$work/out"
"$convoy" bench --sweep --seconds 0.5 --connections 1,2,4,8,16 --report "$work/gone.html" $images >"$work/out" 2>"$work/err" &
sweep=$!
until_true 30 measured 2 || fail "no load is measured: $(cat "$work/out" "$work/err")"
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null || true
daemon=
status=0
wait $sweep || status=$?
[ $status = 1 ] || fail "status $status: $(cat "$work/out" "$work/err")"
out 'of 5 loads were measured: the server went away: no server answers at '
out 'ERRORS: .*without an answer'
run 0 bench --compare --json --report "$work/compared.html" "$work/gone.html" "$work/closed.json"
page "$work/compared.html"
holds "any(load.get('first_errors', 0) > 0 for load in d['loads'])"

echo "A server that is busy now and then, and says what its stages take."
cat >"$work/busy.py" <<'PYTHON'
import http.server, json, threading
posts, lock = 0, threading.Lock()
class Busy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, status, document):
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def do_GET(self):
        self.answer(200, {"name": "<b>busy</b>", "version": "7"})
    def do_POST(self):
        global posts
        self.rfile.read(int(self.headers["Content-Length"]))
        with lock:
            posts += 1
            busy = posts % 3 == 0
        times = {"wait_us": 100, "decode_us": 200, "queue_us": 300, "input_us": 400, "compute_us": 500, "output_us": 600, "total_us": 2800}
        predictions = [{"label": "truck", "index": 0, "probability": 1}]
        answer = {"model": "</script>", "version": "&", "results": [{"predictions": predictions}], "timing": times, "batch_size": 4, "device": "a\u202eb"}
        self.answer(503 if busy else 200, {"error": "the queue is full"} if busy else answer)
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy)
print(server.server_port, flush=True)
server.serve_forever()
PYTHON
"$python" "$work/busy.py" >"$work/port" &
proxy=$!
until_true 20 grep -q . "$work/port" || fail "the busy server did not start"
run 1 bench --sweep --seconds 0.5 --connections 1,2 --json --report "$work/busy.html" --url "http://user:secret@127.0.0.1:$(cat "$work/port")/" $images
holds "all(p['statuses']['503'] > 0 and abs(p['statuses']['503'] - p['answered'] / 2) <= 2 for p in d['points'])"
holds "all([round(p['timing'][key]) for key in ('wait_us', 'decode_us', 'queue_us', 'input_us', 'compute_us', 'output_us', 'total_us')] == [100, 200, 300, 400, 500, 600, 2800] for p in d['points'])"
holds "d['model'] == '</script>' and all(p['timing']['batch_size'] == 4 and 'refusal_ms' in p for p in d['points'])"
holds "'secret' not in str(d) and 'user' not in d['url']"
grep -c 'secret' "$work/busy.html" >/dev/null && fail "the page has a password"
"$python" - "$work/busy.html" <<'PYTHON' || fail "stages in the page"
import re, sys
text = open(sys.argv[1], encoding="utf-8").read()
assert text.count("decode: 0.3 ms") == text.count("queue: 0.3 ms") == text.count(">copy: 1 ms") == text.count("compute: 0.5 ms") == text.count("other: 0.7 ms") == 2
assert len(re.findall(r"Errors with [12] connections?: \d+ answered 503 of \d+ requests", text)) == 2
assert "\u202e" not in text and text.count("</script>") == 1
PYTHON
kill $proxy
wait $proxy 2>/dev/null || true
proxy=

echo "compare"
run 0 bench --compare --json --report "$work/compared.html" "$work/closed.html" "$work/closed.json"
page "$work/compared.html"
holds "d['first'] == d['second'] and d['differences'] == [] and len(d['loads']) == 3"
holds "all(load['in'] == 'both' and load['p50'] == {'ratio': 1, 'verdict': 'equal'} for load in d['loads'])"
# Twice as fast, by the bins; another model and machine, one load less.
"$python" - "$work/closed.json" "$work/fast.json" <<'PYTHON'
import json, sys
d = json.load(open(sys.argv[1]))
d["model"], d["machine"] = "other", "another"
for p in d["points"]:
    p["seconds"] /= 2
    latency = p["latency_ms"]
    for bin in latency["bins"]:
        bin[0] -= 70 # 1.01 ** 70 = 2.0067
    for key in ("min_us", "max_us", "sum_us"):
        latency[key] /= 2.0067
del d["points"][1]
json.dump(d, open(sys.argv[2], "w"))
PYTHON
run 0 bench --compare --json --report "$work/compared.html" "$work/closed.html" "$work/fast.json"
page "$work/compared.html"
holds "[load['in'] for load in d['loads']] == ['both', 'first', 'both']"
holds "all(abs(load['p50']['ratio'] - 0.4983) < 0.002 and load['p50']['verdict'] == 'better' for load in d['loads'] if 'p50' in load)"
holds "all(abs(load['requests_per_second']['ratio'] - 2) < 1e-6 and load['requests_per_second']['verdict'] == 'better' for load in d['loads'] if 'p50' in load)"
holds "d['differences'] == ['The model differs: cifar10-convnet and other.', 'The client\'s machine differs: ' + d['first']['machine'] + ' and another.']"
run 0 bench --compare "$work/fast.json" "$work/closed.html"
out '^1 connection  *0.500 worse  *2.0'
out '^2 connections  *only in the second report'
out '^warning: The model differs: other and cifar10-convnet'
run 0 bench --compare "$work/open.html" "$work/closed.html"
out '^20 requests/s due  *only in the first'

echo "What no report is."
"$python" - "$work" <<'PYTHON'
import json, os, sys
work = sys.argv[1]
good = open(work + "/closed.html", "rb").read()
text = open(work + "/closed.json", "rb").read()
document = json.loads(text)
def write(name, content):
    with open(f"{work}/bad-{name}", "wb") as file:
        file.write(content)
def changed(name, **members):
    write(name, json.dumps({**document, **members}).encode())
write("empty", b"")
write("spaces", b" \n\t")
write("nul", b"\0" * 100)
write("random", os.urandom(5000))
write("less", b"<")
write("other-page", b"<!DOCTYPE html><html><p>no</p></html>")
write("comparison", open(work + "/compared.html", "rb").read())
for share in (10, 50, 90, 99):
    write(f"cut-page-{share}", good[: len(good) * share // 100])
    write(f"cut-json-{share}", text[: len(text) * share // 100])
write("no-end", good.split(b"</script>")[0])
write("two-starts", good.replace(b'id="sweep">', b'id="sweep"><script type="application/json" id="sweep">', 1))
write("deep", b"[" * 100000)
write("deep-page", b'<script type="application/json" id="sweep">' + b'{"a":' * 100000 + b"</script>")
write("huge", text + b" " * (9 << 20))
write("many", b"[" + b"0," * 2000000 + b"0]")
write("list", b"[]")
write("number", b"7")
write("text", b'"convoy bench --sweep"')
changed("version", format_version=2)
changed("version-type", format_version={})
changed("format", format="other")
changed("points-type", points={"a": document["points"][0]})
changed("points-none", points=[])
changed("points-many", points=document["points"] * 30)
changed("points-of-text", points=["x"])
changed("seconds", seconds="10")
changed("model", model=["x"])
changed("ratio", bin_ratio=1.5)
for key in document["points"][0]:
    for kind, value in (("list", [[]]), ("huge", 1e308), ("text", "x"), ("null", None), ("below", -1)):
        changed(f"point-{key}-{kind}", points=[{**document["points"][0], key: value}])
PYTHON
for bad in "$work"/bad-*; do
  for arguments in "$bad $work/closed.html" "$work/closed.json $bad"; do
    status=0
    # shellcheck disable=SC2086 # words
    timeout 60 "$convoy" bench --compare --json --report "$work/none.html" $arguments >"$work/out" 2>"$work/err" || status=$?
    case $bad in
    # What is computed from the rest is not read; what is absent there was not measured.
    */bad-point-loop-* | */bad-point-requests_per_second-* | */bad-point-images_per_second-* | */bad-point-answered-*) [ $status = 0 ] || fail "$bad: $status: $(cat "$work/err")" ;;
    *)
      [ $status = 1 ] || fail "$bad: status $status: $(head -c 1000 "$work/out" "$work/err")"
      err "^convoy bench: '$bad' cannot be "
      if [ -s "$work/out" ] || [ -e "$work/none.html" ]; then fail "$bad: a report of it"; fi
      ;;
    esac
    rm -f "$work/none.html"
  done
done
run 1 bench --compare "$work/absent" "$work/closed.html"
err "'$work/absent' cannot be opened"
run 1 bench --compare "$work" "$work/closed.html"
run 2 bench --compare "$work/closed.html"
err 'needs two reports, 1 '
# What hostile reports say is text alone.
"$python" - "$work" <<'PYTHON'
import json, sys
document = json.load(open(sys.argv[1] + "/closed.json"))
for key in ("date", "client", "machine", "url", "server", "model", "version", "device", "precision", "ended"):
    document[key] = "\x1b[2J</td></script><script>alert(1)</script>\u202e" + "x" * 100000
document["points"][0]["no_answer_example"] = document["model"]
document["points"][0]["no_answer"] = 1
json.dump(document, open(sys.argv[1] + "/evil.json", "w"))
PYTHON
run 0 bench --compare "$work/evil.json" "$work/closed.json"
grep -q "$(printf '\033')" "$work/out" && fail "a report controls the terminal"
run 0 bench --compare --json --report "$work/evil.html" "$work/evil.json" "$work/closed.json"
page "$work/evil.html"
[ "$(grep -c '<script' "$work/evil.html")" = 1 ] || fail "scripts in the page"
