#!/usr/bin/env bash
# sanitize: all
# Triton's extensions that are read only: the statistics agree with /metrics to the last count and microsecond, the model
# configuration with the metadata and config.json, the repository index with /v2/models.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
models=$work/models
mkdir -p "$models/broken/1"
cp -r models/cifar10-convnet "$models/two"
cp -r "$models/two/1" "$models/two/2"
cp -r models/cifar10-convnet "$models/half" # its highest version cannot be loaded
mkdir "$models/half/2"
echo "no model" >"$models/half/2/model.onnx"
cp -r models/fashion-lenet "$models/stats" # a name that is a page as well
cp models/cifar10-convnet/1/model.onnx "$models/broken/1"
echo '{"precission": "fp32"}' >"$models/broken/config.json"
mv "$models/two/labels.txt" "$models/two/names.txt"
cat >"$models/two/config.json" <<'JSON'
{"labels": "names.txt", "input": {"resize": "crop"}, "output": {"softmax": "on"}, "precision": "tf32",
 "batching": {"max_batch": 7, "max_delay_us": 1234, "max_queue": 99}}
JSON

# agree: the statistics of all models against /metrics, exactly. Between requests neither changes.
agree() {
  curl -fsS "$url/v2/models/stats" >"$work/stats"
  curl -fsS "$url/metrics" >"$work/metrics"
  "$python" - "$work/stats" "$work/metrics" <<'PYTHON' || fail "the statistics and /metrics differ: $(cat "$work/stats")"
import json, re, sys
from decimal import Decimal

metrics = {}  # name -> model -> [(the other labels, value)]
for line in open(sys.argv[2]):
    sample = re.match(r'convoyd_(\w+)\{model="([^"]*)"(.*)\} (\S+)$', line)
    if sample:
        name, model, labels, value = sample.groups()
        metrics.setdefault(name, {}).setdefault(model, []).append((labels, Decimal(value)))

def total(name, model):
    return sum(value for _, value in metrics.get(name, {}).get(model, []))

wrong = 0
def same(what, ours, theirs):
    global wrong
    if ours != theirs:
        print(f"{what}: {ours} in the statistics, {theirs} in /metrics")
        wrong += 1

stats = json.load(open(sys.argv[1]))["model_stats"]
for model in {version["name"] for version in stats}:
    versions = [version for version in stats if version["name"] == model]
    inference = [version["inference_stats"] for version in versions]
    batches = [batch for version in versions for batch in version["batch_stats"]]
    for names, histogram in ((["success", "fail"], "request"), (["queue"], "queue"), (["compute_input"], "input"),
                             (["compute_infer"], "compute"), (["compute_output"], "output")):
        found = [of[name] for of in inference for name in names]
        same(f"{model} {names} count", sum(d["count"] for d in found), total(histogram + "_seconds_count", model))
        same(f"{model} {names} ns", sum(d["ns"] for d in found), total(histogram + "_seconds_sum", model) * 10**9)
        if names[0].startswith("compute"):
            for key in "count", "ns":
                same(f"{model} {names} {key} of the batches", sum(batch[names[0]][key] for batch in batches),
                     sum(of[names[0]][key] for of in inference))
    same(f"{model} images", sum(v["inference_count"] for v in versions), total("images_total", model))
    same(f"{model} executions", sum(v["execution_count"] for v in versions), total("batches_total", model))
    sizes = [(batch["batch_size"], batch["compute_infer"]["count"]) for batch in batches]
    same(f"{model} batch sizes", sum(size * count for size, count in sizes), total("batch_size_sum", model))
    for labels, value in metrics["batch_size_bucket"][model]:
        bound = float(re.search('le="(.*)"', labels).group(1).replace("+Inf", "inf"))
        same(f"{model} batches up to {bound}", sum(count for size, count in sizes if size <= bound), value)
    for cache in "cache_hit", "cache_miss":
        same(f"{model} {cache}", [of[cache] for of in inference], [{"count": 0, "ns": 0}] * len(versions))
sys.exit(wrong > 0)
PYTHON
}
# stat NAME VERSION EXPRESSION: over the version's statistics s, of the page that agree() read.
stat() { json "$work/stats" "next($3 for s in d['model_stats'] if (s['name'], s['version']) == ('$1', '$2'))"; }
# is VALUE NAME VERSION EXPRESSION
is() { [ "$(stat "${@:2}")" = "$1" ] || fail "$4 of $2/$3 is $(stat "${@:2}"), not $1"; }
# listed PATH: the name/version pairs that the page speaks of.
listed() {
  expect 200 "$url$1"
  json "$work/body" "' '.join(s['name'] + '/' + s['version'] for s in d['model_stats'])"
}
# lists PATH WANTED
lists() { [ "$(listed "$1")" = "$2" ] || fail "$1 lists $(listed "$1"), not $2"; }

configure 'auth={"loopback_admin": true}'
start --backend null --config "$work/config.json" --models "$models"

echo "Before the first image."
agree
for version in 1 2; do
  is "0 0 0 []" two $version "' '.join(str(s[key]) for key in ('last_inference', 'inference_count', 'execution_count', 'batch_stats'))"
done
lists /v2/models/stats "half/1 stats/1 two/1 two/2"
lists /v2/models/two/stats "two/1 two/2"
lists /v2/models/two/versions/1/stats two/1
lists "/v2/models/two/stats?version=2" two/2
lists /v2/models/half/stats half/1
lists /v2/models/stats/stats stats/1
lists /v2/models/stats/versions/1/stats stats/1

echo "After some."
two=$url/v2/models/two
begun=$(date +%s%3N)
for _ in {1..5}; do expect 200 --data-binary @$image "$two/versions/1/classify"; done
expect 200 -F "a=@$image" -F "b=@README.md" -F "c=@$image" "$two/versions/1/classify"
expect 415 --data-binary text "$two/versions/1/classify"
expect 415 -F "a=@README.md" -F "b=@README.md" "$two/versions/1/classify"
expect 200 --data-binary @$image "$two/classify" # version 2
expect 400 "$two/classify" -X POST               # no image was looked at: no request of the statistics
expect 400 --data-binary @$image "$two/classify?top=0"
expect 404 --data-binary @$image "$two/versions/3/classify"
expect 503 --data-binary @$image "$url/v2/models/half/classify"
ended=$(date +%s%3N)
agree
is "6 2" two 1 "str(s['inference_stats']['success']['count']) + ' ' + str(s['inference_stats']['fail']['count'])"
is "1 0" two 2 "str(s['inference_stats']['success']['count']) + ' ' + str(s['inference_stats']['fail']['count'])"
is True two 1 "s['inference_stats']['success']['ns'] > 0 and s['inference_stats']['fail']['ns'] > 0"
is "7 7" two 1 "str(s['inference_count']) + ' ' + str(s['inference_stats']['queue']['count'])"
is "1 1" two 2 "str(s['inference_count']) + ' ' + str(s['execution_count'])"
is "[1]" two 2 "[b['batch_size'] for b in s['batch_stats']]"
is True two 2 "$begun <= s['last_inference'] <= $ended"
is 0 half 1 "s['last_inference']"

echo "After many at a time: batches of several sizes, up to max_batch."
forms=()
for _ in {1..60}; do forms+=(-F "i=@$image"); done
gathered expect 200 "${forms[@]}" "$two/classify"
for _ in {1..4}; do expect 200 "${forms[@]}" "$two/classify"; done
expect 200 "${forms[@]}" "$url/v2/models/stats/classify"
agree
is 301 two 2 "s['inference_count']"
is True two 2 "len(s['batch_stats']) > 1 and max(b['batch_size'] for b in s['batch_stats']) == 7"
is True two 2 "[b['batch_size'] for b in s['batch_stats']] == sorted({b['batch_size'] for b in s['batch_stats']})"
is 60 stats 1 "s['inference_count']"

echo "What is not there."
for page in stats config; do
  expect 404 "$url/v2/models/nobody/$page"
  expect 404 "$two/versions/3/$page"
  expect 404 "$two/$page?version=3"
  expect 503 "$url/v2/models/broken/$page"
  grep -q precission "$work/body" || fail "the reason is missing: $(cat "$work/body")"
  expect 503 "$url/v2/models/half/versions/2/$page"
  expect 405 -X POST "$two/$page"
  grep -qi '^allow: GET, HEAD' "$work/headers" || fail "$(cat "$work/headers")"
  curl -sSfI "$two/$page" | grep -i '^content-type: application/json' >/dev/null || fail "HEAD $page"
done
expect 405 -X POST "$url/v2/models/stats"
[ "$(sample 'convoyd_requests_total{model="two",route="/v2/models/{model}/stats",status="200"}')" -ge 2 ] || fail "the page is not counted as the model's"

echo "The configuration."
# configured NAME [VERSION]: compares the pages of a model with each other and with its config.json.
configured() {
  expect 200 "$url/v2/models/$1${2:+/versions/$2}"
  cp "$work/body" "$work/metadata"
  expect 200 "$url/v2/models/$1${2:+/versions/$2}/config"
  "$python" - "$work/body" "$work/metadata" "$models/$1/config.json" <<'PYTHON' || fail "the configuration of $1: $(cat "$work/body")"
import json, sys
config, metadata, file = (json.load(open(path)) for path in sys.argv[1:])
def tensors(of, shape, skip):
    return [(t["name"], t.get("datatype") or t["data_type"].removeprefix("TYPE_"), t[shape][skip:]) for t in of]
batching = {"max_batch": 256, "max_delay_us": 500, "max_queue": 4096, **file.get("batching", {})}
labels = file.get("labels", "labels.txt")
wanted = {
    "name": metadata["name"], "platform": metadata["platform"], "backend": "convoyd",
    "version_policy": {"all": {}}, "max_batch_size": batching["max_batch"],
    "instance_group": [], "default_model_filename": "model.onnx", "model_warmup": [],
    "parameters": {key: {"string_value": value} for key, value in {
        "precision": file.get("precision", "fp32"), "softmax": file.get("output", {}).get("softmax", "auto"),
        "activation": {"on": "softmax", "off": "none"}.get(file.get("output", {}).get("softmax"), "auto"),
        "resize": file.get("input", {}).get("resize", "stretch"),
        "interpolation": file.get("input", {}).get("interpolation", "bilinear")}.items()},
    "dynamic_batching": {"preferred_batch_size": [], "max_queue_delay_microseconds": batching["max_delay_us"],
                         "preserve_ordering": False, "priority_levels": 3, "default_priority_level": 2,
                         "default_queue_policy": {
                             "timeout_action": "REJECT", "default_timeout_microseconds": 10000000,
                             "allow_timeout_override": True, "max_queue_size": batching["max_queue"]}},
}
wrong = [key for key in wanted if config.get(key) != wanted[key]]
for ours, theirs in ("input", "inputs"), ("output", "outputs"):
    if tensors(config[ours], "dims", 0) != tensors(metadata[theirs], "shape", 1):
        wrong.append(ours)
if [o["label_filename"] for o in config["output"]] != [labels] or config["input"][0]["format"] != "FORMAT_NCHW":
    wrong.append("labels or format")
sys.exit(f"not as expected: {wrong}" if wrong else 0)
PYTHON
}
configured two
configured two 1
configured stats 1 # without a version the name is the page
sed -i 's/1234/4321/' "$models/two/config.json"
mv "$models/two/names.txt" "$models/two/others.txt"
sed -i 's/names.txt/others.txt/' "$models/two/config.json"
kill -HUP "$daemon"
soon() { (configured two); } # a shell of its own, which fail() ends
until_true 10 soon || configured two

echo "The index."
expect 200 "$url/v2/models"
cp "$work/body" "$work/states"
expect 200 -X POST "$url/v2/repository/index"
"$python" - "$work/body" "$work/states" <<'PYTHON' || fail "the index: $(cat "$work/body")"
import json, sys
index, models = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))["models"]
for model in models:
    model["state"] = {"FAILED": "UNAVAILABLE"}.get(model["state"], model["state"])
states = [entry["state"] + (" because" if entry["reason"] else "") for entry in index]
sys.exit(index != models or states != ["UNAVAILABLE because", "READY", "UNAVAILABLE because", "READY", "READY", "READY"])
PYTHON
cp "$work/body" "$work/index"
for body in '{}' '{"ready": false}' '{"ready": false, "repository_name": "x"}'; do
  expect 200 -d "$body" "$url/v2/repository/index"
  cmp "$work/index" "$work/body" || fail "$body: $(cat "$work/body")"
done
expect 200 -d '{"ready": true}' "$url/v2/repository/index"
[ "$(json "$work/body" "' '.join(m['name'] + '/' + m['version'] + ':' + m['state'] for m in d)")" = \
  "half/1:READY stats/1:READY two/1:READY two/2:READY" ] || fail "$(cat "$work/body")"
for body in '{"ready": 1}' '{"ready": "true"}' '{"ready": null}' '[]' 'true' '{"ready"' 'ready' ' '; do
  expect 400 -d "$body" "$url/v2/repository/index"
done
expect 400 --data-binary $'{"ready": true\xff}' "$url/v2/repository/index"
head -c 5000000 /dev/zero | tr '\0' ' ' >"$work/large"
expect 413 --data-binary "@$work/large" "$url/v2/repository/index"
expect 405 "$url/v2/repository/index"
grep -qi '^allow: POST' "$work/headers" || fail "$(cat "$work/headers")"
expect 400 -X POST "$url/v2/repository/models/two/load"
expect 200 --data-binary @$image "$two/classify" # and serves on
stop

echo "With times on the device."
rm -r "$models/broken" "$models/half" "$models/stats"
start --backend cpu --models "$models"
for _ in {1..3}; do expect 200 "${forms[@]}" "$url/v2/models/two/classify"; done
agree
is True two 2 "s['inference_count'] == 180 and s['inference_stats']['compute_infer']['ns'] > 0"
stop
echo "passed"
