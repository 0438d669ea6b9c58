#!/usr/bin/env bash
# The convoy command as people run it: right answers, clear errors, exit statuses; and libconvoy from a program.
# sanitize: all
# shellcheck source=tests/integration/client.sh
. "$(dirname "$0")/client.sh"

samples=models/samples

echo "Without a server."
run 0 --version
out '^convoy [0-9]'
run 0 --help
for command in classify models bench eval stats top; do
  out "^  $command "
  "$convoy" "$command" --help | grep '^Usage: convoy '"$command" >/dev/null || fail "convoy $command --help"
done
run 2
run 2 fly
run 2 classify
run 2 classify --top 0 $samples/ship.jpg
run 2 models extra
run 2 --json models
err "'--json' comes before the command"
run 2 --url
err "'--url' needs a value"
run 2 --url http://127.0.0.1
err '^Usage: convoy'
run 2 --url '' models
err "the server's URL '' is of no use"
keep_closed
run 3 classify --url "http://127.0.0.1:$closed" $samples/ship.jpg
err 'run.sh'
run 3 models --url "http://127.0.0.1:$closed"
for before in "--url http://127.0.0.1:$closed" "--url=http://127.0.0.1:$closed" "--url x: --url=http://127.0.0.1:$closed"; do
  # shellcheck disable=SC2086 # words
  run 3 $before classify --json $samples/ship.jpg
  err "convoy classify: no server answers at http://127.0.0.1:$closed"
done
run 2 --url "http://127.0.0.1:$closed" models --url 'gopher://x'
run 2 models --url 'gopher://x'
"$python" -u -m http.server --bind 127.0.0.1 --directory "$work" 0 >"$work/http" 2>&1 &
other=$!
until_true 20 grep -q 'port [0-9]' "$work/http" || { kill $other; fail "Python's HTTP server did not start"; }
run 4 models --url "http://127.0.0.1:$(sed -n 's/.*port \([0-9]*\) .*/\1/p' "$work/http")"
kill $other
err "not a convoyd's"

configure 'default_model="cifar10-convnet"'
start --backend cpu --config "$work/config.json"
export CONVOY_URL=$url

echo "classify"
run 0 classify --top 1 $samples/ship.jpg
out '^  ship '
CONVOY_URL='' run 0 --url "$url" classify --top 1 $samples/ship.jpg
out '^  ship '
run 0 classify --json $samples/{ship,truck,airplane,automobile}.jpg
holds "[f['predictions'][0]['label'] for f in d['files']] == ['ship', 'truck', 'airplane', 'automobile']"
holds "[f['file'] for f in d['files']][1] == '$samples/truck.jpg' and d['model'] == 'cifar10-convnet' and d['timing']['total_us'] > 0"
grep -q "$(printf '\033')" "$work/out" && fail "colours off a terminal"
"$convoy" classify --top 2 --json - <$samples/truck.jpg >"$work/out" || fail "standard input"
holds "d['files'][0]['predictions'][0]['label'] == 'truck' and len(d['files'][0]['predictions']) == 2"
run 0 classify --profile --json $samples/ship.jpg
holds "len(d['layers']) > 3 and all(l['us'] >= 0 for l in d['layers'])"
run 0 classify --profile $samples/ship.jpg
out 'layer (kernel)'
run 0 classify --model cifar10-resnet --explain "$work/where.png" --json $samples/ship.jpg
holds "(lambda e: e['file'] == '$work/where.png' and e['label'] == 'ship' and e['height'] == 8 and e['low'] < 0 < e['high'] and e['box'] == [0, 0, 1, 1])(d['explanation'])"
curl -fsS -H 'Accept: image/png' --data-binary @$samples/ship.jpg "$url/classify?model=cifar10-resnet&explain=cam" | cmp - "$work/where.png" ||
  fail "another map than the server's"
run 0 classify --model cifar10-resnet --explain "$work/where.png" $samples/ship.jpg
out "^  where: ship in $work/where.png"
run 4 classify --model cifar10-convnet --explain "$work/none.png" $samples/ship.jpg
err 'has no class activation map'
[ ! -e "$work/none.png" ] || fail "a map that is none"
run 2 classify --explain "$work/none.png" $samples/{ship,truck}.jpg
err 'of one file, not of 2'
run 2 classify --explain "$work/none.png" --profile $samples/ship.jpg
run 1 classify --model cifar10-resnet --explain "$work/none/where.png" $samples/ship.jpg
run 1 classify --json $samples/ship.jpg README.md "$work/absent.jpg" $samples/truck.jpg
holds "[f['predictions'][0]['label'] if 'predictions' in f else f['status'] for f in d['files']] == ['ship', 415, 0, 'truck']"
holds "'absent.jpg' in d['files'][2]['error']"
run 1 classify README.md
out '^README.md: failed: '
run 1 classify "$work"
run 4 classify --model 'no such/model&top=1' $samples/ship.jpg
err 'no such model'
err 'status 404, request [0-9a-f]'
run 4 classify --version 77 $samples/ship.jpg

echo "models"
run 0 models
out '^cifar10-convnet  *1  READY'
run 0 models --json
holds "d['models'][0] == {'name': 'cifar10-convnet', 'version': '1', 'state': 'READY', 'reason': ''}"

echo "stats"
run 0 stats --json cifar10-convnet # the null backend of test_stats.sh takes no time; this one does
holds "all(b['compute_infer']['ns'] > 0 for b in d['model_stats'][0]['batch_stats'])"
per_second="10**9 * b['batch_size'] * b['compute_infer']['count'] / b['compute_infer']['ns']"
rates=$(json "$work/out" "' '.join(str($per_second) for b in d['model_stats'][0]['batch_stats'])")
run 0 stats --batches cifar10-convnet
shown=$(sed '1,/^$/d' "$work/out" | awk 'NR > 1 { print $NF }' | xargs)
[ "$("$python" -S -c 'import sys
rates, shown = ([float(word) for word in words.split()] for words in sys.argv[1:])
print(len(rates) == len(shown) > 0 and all(abs(a - b) <= 6e-4 * a for a, b in zip(rates, shown)))' "$rates" "$shown")" = True ] ||
  fail "images/s: $shown, not $rates: $(cat "$work/out")"

echo "bench"
run 0 bench --json --seconds 2 --connections 4 $samples/{ship,truck,airplane,automobile}.jpg
holds "d['loop'] == 'closed' and d['answered'] > 20 and d['statuses'] == {'200': d['answered']} and d['no_answer'] == 0"
holds "0 < d['latency_ms']['p50'] <= d['latency_ms']['p90'] <= d['latency_ms']['p99'] <= d['latency_ms']['p99.9'] <= d['latency_ms']['max']"
holds "2 <= d['seconds'] < 20 and abs(d['requests_per_second'] - d['answered'] / d['seconds']) < 0.01 * d['requests_per_second']"
# Little's law: four connections that are never idle.
holds "0.5 < d['requests_per_second'] * d['latency_ms']['mean'] / 1000 / 4 < 1.01"
mkdir -p "$work/images/deep"
cp $samples/ship.jpg "$work/images/a.jpg"
cp $samples/truck.jpg "$work/images/deep/b.jpg"
cp README.md "$work/images" # passed over
# Enough connections for a machine that has much else to do: with none free a request is not sent.
run 0 bench --json --seconds 4 --rate 25 --connections 16 --batch 3 "$work/images"
# 100 arrivals by chance (Poisson): one run in 1e11 has 40 or less, one in 1e15 has 190 or more.
holds "d['loop'] == 'open' and 40 < d['answered'] < 190 and d['not_sent'] == 0 and d['images_per_request'] == 3"
holds "abs(d['images_per_second'] - 3 * d['requests_per_second']) < 0.01 * d['images_per_second']"
run 0 bench --seconds 0.3 --rate 100 "$work/images"
out 'latency .* 99.9 %'
run 4 bench --json --seconds 1 --rate 60 --model absent "$work/images"
holds "d['answered'] == 0 and d['statuses']['404'] > 5 and d['latency_ms']['p50'] is None"
run 2 bench --rate 0 "$work/images"
run 1 bench README.md
run 1 bench "$work/nothing"
err 'nothing'
run 3 bench --seconds 1 --url "http://127.0.0.1:$closed" "$work/images"
# A stopped server holds up every request that falls due within two seconds from the first on: they count from when they were due.
# Those of the first 1.7 s are late by more than 0.3 s, about 68 of 160 that arrive by chance; one run in 1e17 has less than a tenth
# of them there. Counted from when they were sent it would be one for each of the eight connections, a twentieth. The rate is low, so
# that the one that falls due last finds a connection free, and none is left unsent at the end.
asked() { awk -v server="0100007F:$(printf '%04X' "${url##*:}")" '$2 == server && $5 !~ /:00000000$/ { n++ } END { exit !n }' /proc/net/tcp; }
stand_still "$(front)"
(until_true 20 asked; sleep 2; kill -CONT "$(front)") &
run 0 bench --json --seconds 4 --rate 40 --connections 8 "$work/images"
wait $!
holds "d['latency_ms']['max'] > 700 and d['latency_ms']['p90'] > 300"

echo "eval"
set=$work/set
mkdir -p "$set"/{ship,truck,8}
cp $samples/ship.jpg "$set/ship/1.jpg"
cp $samples/ship.jpg "$set/8/2.jpg" # a class by its index
cp $samples/truck.jpg "$set/truck/3.jpg"
cp $samples/airplane.jpg "$set/truck/4.jpg" # a mistake
cp README.md "$set/of-no-class"
counts="(d['overall']['images'], d['overall']['right'], d['confusion'][8][8], d['confusion'][9][9], d['confusion'][9][0])"
run 0 eval --json "$set"
holds "$counts == (4, 3, 2, 1, 1) and sum(map(sum, d['confusion'])) == 4 and d['failed'] == 0"
holds "d['overall']['accuracy'] == 0.75 and abs(d['overall']['standard_error'] - (0.75 * 0.25 / 4) ** 0.5) < 1e-9"
holds "d['classes'][9] == {'images': 2, 'right': 1, 'accuracy': 0.5, 'standard_error': d['classes'][9]['standard_error'], 'interval': d['classes'][9]['interval'], 'label': 'truck'}"
# Wilson's interval of 3 right out of 4 and of 1 out of 2; calibration of the four answers.
holds "[round(x, 4) for x in d['overall']['interval']] == [0.3006, 0.9544]"
holds "[round(x, 4) for x in d['classes'][9]['interval']] == [0.0945, 0.9055]"
bins="[b for b in d['calibration']['bins'] if b['images']]"
holds "len(d['calibration']['bins']) == 10 and sum(b['images'] for b in $bins) == 4 and sum(b['right'] for b in $bins) == 3"
holds "abs(d['calibration']['expected_error'] - sum(abs(b['right'] - b['images'] * b['mean_probability']) for b in $bins) / 4) < 1e-9"
holds "d['mean_request_us']['total'] >= d['mean_request_us']['compute'] > 0"
holds "d['profiled_images'] == 4 and 'layers_problem' not in d"
layers="[(l['name'], l['kernel']) for l in d['layers']]"
json "$work/out" "$layers" >"$work/layers"
"$convoy" classify --profile --json $samples/ship.jpg >"$work/profile"
[ "$(json "$work/profile" "$layers")" = "$(cat "$work/layers")" ] || fail "other layers than classify's: $(cat "$work/layers")"
holds "all(l['mean_us'] > 0 for l in d['layers']) and d['requests'] == 2"
# The daemon's own count says that each profiled image travelled alone.
batches() { sample 'convoyd_batches_total{model="cifar10-convnet",device="cpu"}'; }
before=$(batches)
run 0 eval --json --profile-images 3 --batch 4 "$set"
holds "d['profiled_images'] == 3 and d['requests'] == 2"
[ $(($(batches) - before)) -ge 5 ] || fail "profiled images did not travel alone: $before $(batches)"
run 0 eval --json --profile-images 0 "$set"
holds "d['profiled_images'] == 0 and d['layers'] == [] and 'layers_problem' not in d"
run 2 eval --profile-images -1 "$set"
tar -C "$set" -czf "$work/set.tar.gz" .
run 0 eval --json --batch 1 --connections 2 "$work/set.tar.gz"
holds "$counts == (4, 3, 2, 1, 1) and d['requests'] == 4"
run 0 eval "$set"
out 'accuracy 75.00 % +- 21.65 (3 of 4)'
out '^   9 truck  *1 .* 1$'
out '^mean time of each layer (4 images'
out '% *conv1 ('
out ' all layers$'
grep -q "$(printf '\r')" "$work/err" && fail "a progress bar off a terminal"
run 0 eval --csv "$set"
out '^9,"truck",2,1,0.500000,0.353553,1,0,0,0,0,0,0,0,0,1$'
out '^$'
out '^layer,kernel,mean_us,images$'
out '^"conv1","[^"]*",[0-9.]*,4$'
run 0 eval --csv --profile-images 0 "$set"
[ "$(wc -l <"$work/out")" = 11 ] || fail "more than the classes: $(cat "$work/out")"

echo "eval --report"
# The page is well-formed, asks nothing of anybody, and shows the numbers of --json.
cat >"$work/page.py" <<'PYTHON'
import base64, html.parser, json, re, sys, xml.etree.ElementTree as xml
text, wanted = open(sys.argv[1], encoding="utf-8").read(), json.load(open(sys.argv[2]))
class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.ids, self.content, self.images, self.open, self.captions = [], {}, {}, [], [], []
    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        self.images += [attributes["src"]] if tag == "img" else []
        self.captions += [""] if tag == "figcaption" else []
        self.open.append((tag, attributes.get("id")))
    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()
    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag, tag
    def handle_data(self, data):
        for tag, name in self.open:
            if name:
                self.content[name] = self.content.get(name, "") + data
            if tag == "figcaption":
                self.captions[-1] += data
page = Page()
page.feed(text)
page.close()
assert page.open == []
for tag, attributes in page.tags:
    assert tag not in ("link", "iframe", "object", "embed", "form", "base") and not any(name.startswith("on") for name in attributes), tag
    assert tag != "script" or attributes["type"] == "application/json"
    assert tag == "img" or not {"src", "href", "srcset"} & set(attributes), attributes
assert not re.search(r"url\(|@import|://(?!www\.w3\.org/(2000/svg|1999/xhtml)\")", text)
svgs = re.findall(r"<svg.*?</svg>", text, re.S)
assert len(svgs) == 3 and all(xml.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg" for svg in svgs)
xml.fromstring(text)
assert json.loads(page.content["result"]) == wanted
def percent(value):
    return "%.2f" % (value * 100)
overall = wanted["overall"]
low, high = overall["interval"]
assert page.content["accuracy"] == (f"{percent(overall['accuracy'])} %: {overall['right']} of {overall['images']} images are right. "
                                    f"The 95 % interval is {percent(low)} to {percent(high)} %."), page.content["accuracy"]
assert percent(wanted["calibration"]["expected_error"]) + " %" in page.content["calibration-error"]
facts = page.content["facts"].split("\n")
for fact in (wanted["model"], wanted["version"], wanted["device"], str(overall["images"]), sys.argv[3], sys.argv[4]):
    assert fact in facts, (fact, facts)
def rows(name):
    table = xml.fromstring(re.search(rf'<table id="{name}">.*?</table>', text, re.S)[0])
    return [[cell.text for cell in row] for row in table.find("tbody")]
classes = [c for c in wanted["classes"] if c["images"]]
classes.sort(key=lambda c: (c["accuracy"], -c["images"]))
assert rows("class-table") == [[c["label"], str(c["images"]), str(c["right"]), percent(c["accuracy"]) + " %",
    f"{percent(c['interval'][0])} to {percent(c['interval'][1])} %"] for c in classes], rows("class-table")
assert rows("bin-table") == [[f"{10 * i} to {10 * i + 10} %", str(b["images"]), percent(b["mean_probability"]) + " %",
    percent(b["right"] / b["images"]) + " %"] for i, b in enumerate(wanted["calibration"]["bins"]) if b["images"]]
cells = [title for title in re.findall(r"<title>([^<]*)</title>", svgs[1]) if ": " in title]
labels = [c["label"] for c in wanted["classes"]]
shown = sorted((row, column, count) for row, counts in enumerate(wanted["confusion"]) for column, count in enumerate(counts) if count)
assert len(cells) == len(shown)
for cell, (row, column, count) in zip(cells, shown):
    kind = labels[row] + (" recognised" if row == column else " taken for " + labels[column])
    assert cell.startswith(f"{kind}: {count} of {sum(wanted['confusion'][row])} ("), cell
# The mistakes, and that their pictures are the files.
assert len(page.captions) == min(24, overall["images"] - overall["right"])
if len(sys.argv) > 5:
    assert [base64.b64decode(image.split(",")[1]) for image in page.images] == [open(sys.argv[5], "rb").read()]
    assert page.images[0].startswith("data:image/jpeg;base64,")
    assert " ".join(page.captions[0].split()).startswith("truck taken for airplane "), page.captions
    assert sys.argv[5].split("/")[-1] in page.captions[0]
PYTHON
server="convoyd $("$convoy" --version | sed 's/.* //')"
run 0 eval --json --report "$work/report.html" "$set"
"$python" "$work/page.py" "$work/report.html" "$work/out" "$set" "$server" "$set/truck/4.jpg" || fail "the page differs"
run 0 eval --json --profile-images 0 --report "$work/report.html" "$work/set.tar.gz"
"$python" "$work/page.py" "$work/report.html" "$work/out" "$work/set.tar.gz" "$server" "$set/truck/4.jpg" || fail "the page was not replaced"
"$convoy" eval --csv --report /dev/fd/1 "$set" | cat >"$work/out" # a pipe
out '^9,"truck",2,1,'
out '^</html>$'
# What cannot be written is said before anything is sent; what is full, when it is.
before=$(batches)
for target in "$work/absent/report.html" "$set" /dev/null/report.html; do
  run 1 eval --report "$target" "$set"
  err "'$target' cannot be written: "
done
[ "$(batches)" = "$before" ] || fail "images were sent, though the report cannot be written"
# Devices by a descriptor: by its own name a mistake in what is tested, run as root, would replace the machine's.
run 1 eval --json --report /dev/fd/8 "$set" 8>/dev/full
err "'/dev/fd/8' cannot be written: No space left on device"
holds "$counts == (4, 3, 2, 1, 1)"
run 2 eval --report '' "$set"
run 3 eval --report "$work/none.html" --url "http://127.0.0.1:$closed" "$set"
[ -z "$(find "$work" -maxdepth 1 \( -name 'none*' -o -name '*.tmp' \))" ] || fail "files are left: $(ls "$work")"
head -c 700 $samples/truck.jpg >"$set/truck/0.jpg"
for batch in 1 16; do
  run 1 eval --json --batch $batch "$set"
  holds "$counts == (4, 3, 2, 1, 1) and d['failed'] == 1 and 'truck/0.jpg' in d['failed_example']"
done
mkdir "$set/dinosaur"
cp $samples/ship.jpg "$set/dinosaur"
run 2 eval "$set"
err 'dinosaur'
run 1 eval "$work/absent"
mkdir "$work/empty"
run 1 eval "$work/empty"
run 1 eval README.md
head -c 3000 "$work/set.tar.gz" >"$work/cut.tar.gz"
run 1 eval "$work/cut.tar.gz"
run 3 eval --url "http://127.0.0.1:$closed" "$set"
run 2 eval --json --csv "$set"
# Bare pixels: two grey images of 4 x 4.
printf '\0\0\10\3\0\0\0\2\0\0\0\4\0\0\0\4%032d' 0 | gzip >"$work/g-images-idx3-ubyte.gz"
printf '\0\0\10\1\0\0\0\2\3\5' >"$work/g-labels-idx1-ubyte"
run 1 eval "$work/g-images-idx3-ubyte.gz"
err 'g-labels-idx1-ubyte.gz'
run 0 eval --json --labels "$work/g-labels-idx1-ubyte" "$work/g-images-idx3-ubyte.gz"
holds "d['overall']['images'] == 2 and sum(d['confusion'][3]) == 1 and sum(d['confusion'][5]) == 1"
if [ -f "$data/cifar10-jpg/test.tar.gz" ]; then
  run 0 eval --json "$data/cifar10-jpg/test.tar.gz"
  holds "d['overall']['images'] == 5000 and d['failed'] == 0 and all(c['images'] == 500 for c in d['classes'])"
else
  echo "(the shared test images are not there: $data/cifar10-jpg/test.tar.gz)"
fi
if [ -f "$data/fashion-mnist/test-images-idx3-ubyte.gz" ]; then
  run 0 eval --json "$data/fashion-mnist/test-images-idx3-ubyte.gz"
  holds "d['overall']['images'] == 431 and d['failed'] == 0"
  run 0 eval --json --report "$work/report.html" "$data/fashion-mnist/test-images-idx3-ubyte.gz"
  "$python" "$work/page.py" "$work/report.html" "$work/out" "$data/fashion-mnist/test-images-idx3-ubyte.gz" "$server" || fail "the page differs"
fi

echo "a busy server"
# Answers every second POST with 503 and Retry-After, the others with as many results as there are images.
cat >"$work/busy.py" <<'PYTHON'
import http.server, json, sys
posts = 0
class Busy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        global posts
        posts += 1
        body = self.rfile.read(int(self.headers["Content-Length"]))
        images = body.count(b"filename=") or 1
        predictions = [{"label": "truck", "index": 0, "probability": 1}, {"label": "ship", "index": 1, "probability": 0}]
        answer = {"model": "m", "version": "1", "results": [{"predictions": predictions}] * images}
        busy = posts % 2 == 0
        text = json.dumps({"error": "the queue is full"} if busy else answer).encode()
        self.send_response(503 if busy else 200)
        if busy:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *arguments):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Busy)
print(server.server_port, flush=True)
server.serve_forever()
PYTHON
"$python" "$work/busy.py" >"$work/port" &
other=$!
until_true 20 grep -q . "$work/port" || { kill $other; fail "the busy server did not start"; }
busy=http://127.0.0.1:$(cat "$work/port")
rm -r "$set/8" "$set/dinosaur" "$set/truck/0.jpg"
run 0 eval --json --url "$busy" --connections 1 --batch 2 "$set"
# Asked: one image, 503, the other two.
holds "d['overall']['images'] == 3 and d['overall']['right'] == 2 and d['sent_again'] == 1 and d['requests'] == 2"
holds "d['layers'] == [] and 'does not time layers' in d['layers_problem']"
run 1 bench --json --url "$busy" --connections 1 --seconds 0.5 "$work/images"
holds "d['statuses']['200'] == d['answered'] > 2 and abs(d['statuses']['503'] - d['answered']) <= 1"
kill $other

echo "libconvoy"
cat >"$work/program.c" <<'PROGRAM'
#include <convoy.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    struct convoy_client *client;
    struct convoy_failure failure;
    struct convoy_answer *answer;
    const char *files[] = {argv[2], argv[3]};
    if (argc != 4 || convoy_client_open(argv[1], &client, &failure))
        return 2;
    if (convoy_client_classify_files(client, files, 2, NULL, &answer, &failure)) {
        puts(failure.message);
        return 3;
    }
    printf("%s %s\n", answer->results[0].predictions[0].label, answer->results[1].predictions[0].label);
    convoy_client_close(client);
    convoy_answer_free(answer);
    if (convoy_client_open(argv[1], &client, &failure))
        return 4;
    int status = convoy_client_classify_files(client, (const char *[]){"/no/such/file"}, 1, NULL, &answer, &failure);
    convoy_client_close(client);
    return status < 0 && strstr(failure.message, "/no/such/file") && !answer ? 0 : 5;
}
PROGRAM
flags=()
[[ $build == *asan* ]] && flags=(-fsanitize=address -fsanitize=undefined)
cc -std=c11 -Wall -Wextra -Werror "${flags[@]}" -I client/lib -o "$work/program" "$work/program.c" -L "$build/client" \
  -lconvoy -Wl,-rpath,"$(cd "$build/client" && pwd)" || fail "the program does not build"
answer=$("$work/program" "$url" $samples/ship.jpg $samples/truck.jpg) || fail "the program: $answer"
[ "$answer" = "ship truck" ] || fail "the program said $answer"
stop
