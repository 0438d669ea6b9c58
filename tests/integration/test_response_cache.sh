#!/usr/bin/env bash
# sanitize: yes
# The response cache: off unless asked for; on, the same answers as without it, every hit and miss counted, nothing remembered
# that should not be, and never more bytes than it was given.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

[ -e "$build/bin/convoy-backend-cpu.so" ] || skip "the CPU backend is not built"
samples=(models/samples/*.jpg)
[ ${#samples[@]} -ge 4 ] || fail "there are ${#samples[@]} sample images"
models=$work/models
mkdir "$models"
cp -r models/cifar10-convnet "$models/two"
cp -r "$models/two/1" "$models/two/2"
cp -r models/cifar10-convnet "$models/never"
"$python" -S - "$models/never/config.json" <<'PYTHON'
import json, sys
path = sys.argv[1]
try:
    config = json.load(open(path))
except FileNotFoundError:
    config = {}
config["response_cache"] = False
json.dump(config, open(path, "w"))
PYTHON
for i in 1 2 3 4 5; do
  "$python" -S tests/tools/solid_png.py "$work/$i.png" $((10 * i)) 20 30
done

# counts HITS MISSES [MODEL]: what /metrics says of a model, and that the statistics of its versions say the same.
counts() {
  local model=${3:-two} found
  curl -fsS "$url/v2/models/$model/stats" >"$work/stats"
  found=$(sample "convoyd_cache_hits_total{model=\"$model\"}")\ $(sample "convoyd_cache_misses_total{model=\"$model\"}")
  [ "$found" = "$1 $2" ] || fail "$model has $found hits and misses, not $1 $2"
  found=$(json "$work/stats" "' '.join(str(sum(v['inference_stats'][c]['count'] for v in d['model_stats'])) for c in ('cache_hit', 'cache_miss'))")
  [ "$found" = "$1 $2" ] || fail "the statistics of $model say $found, /metrics $1 $2: $(cat "$work/stats")"
  found=$(json "$work/stats" "all((c['count'] > 0) == (c['ns'] > 0) for v in d['model_stats'] for c in (v['inference_stats']['cache_hit'], v['inference_stats']['cache_miss']))")
  [ "$found" = True ] || fail "counts without times, or times without counts: $(cat "$work/stats")"
}
# is VALUE SAMPLE
is() { [ "$(sample "$2")" = "$1" ] || fail "$2 is $(sample "$2"), not $1"; }
# answer IS EXPRESSION: of the last answer, d.
answer() { [ "$(json "$work/body" "$2")" = "$1" ] || fail "$2 is not $1: $(cat "$work/body")"; }
classify() { expect 200 --data-binary "@$1" "$url/v2/models/two/${2:-classify}"; }
results() { json "$work/body" "d['results']"; }
# tensor FILE DATATYPE R G B: an inference request of one image of one colour.
tensor() {
  "$python" -S - "$@" <<'PYTHON'
import json, sys
path, datatype, *colour = sys.argv[1:]
data = [value for channel in colour for value in [int(channel) if datatype == "UINT8" else int(channel) / 255] * 1024]
json.dump({"inputs": [{"name": "image", "datatype": datatype, "shape": [1, 3, 32, 32], "data": data}]}, open(path, "w"))
PYTHON
}
infer() { expect 200 --data-binary "@$1" "$url/v2/models/two/infer"; }
tensor "$work/u8" UINT8 10 20 30 # the pixels of 1.png
tensor "$work/f32" FP32 10 20 30

echo "Off, as it is without being asked for."
start --backend cpu --models "$models"
for i in 0 1 2 3; do
  classify "${samples[i]}"
  results >"$work/without.$i"
done
classify "${samples[0]}"
answer False "'cached' in d"
for datatype in u8 f32; do
  infer "$work/$datatype"
  cp "$work/body" "$work/without.$datatype"
done
curl -fsS "$url/metrics" | grep cache && fail "metrics of a cache that is not there"
expect 200 "$url/v2/models/two/config"
answer "{'enable': False}" "d['response_cache']"
is 7 'convoyd_images_total{model="two"}'
expect 200 "$url/v2/models/two/stats"
answer True "all(v['inference_stats'][c] == {'count': 0, 'ns': 0} for v in d['model_stats'] for c in ('cache_hit', 'cache_miss'))"
stop

echo "On: the same answers, computed once."
configure 'response_cache={"bytes": 1048576}'
start --backend cpu --models "$models" --config "$work/config.json"
is 0 convoyd_cache_entries
is 0 convoyd_cache_bytes
is 0 convoyd_cache_evictions_total
counts 0 0
expect 200 "$url/v2/models/two/config"
answer "{'enable': True}" "d['response_cache']"
expect 200 "$url/v2/models/never/config"
answer "{'enable': False}" "d['response_cache']"
for round in 1 2 3; do
  for i in 0 1 2 3; do
    classify "${samples[i]}"
    [ "$(results)" = "$(cat "$work/without.$i")" ] || fail "another answer in round $round: $(cat "$work/body" "$work/without.$i")"
    if [ $round = 1 ]; then
      answer "False 1 cpu" "str('cached' in d) + ' ' + str(d['batch_size']) + ' ' + d['device']"
    else
      answer "1 0 -" "str(d['cached']) + ' ' + str(d['batch_size']) + ' ' + d['device'] + '-'"
      answer "[0, 0, 0, 0]" "[d['timing'][t] for t in ('queue_us', 'input_us', 'compute_us', 'output_us')]"
      answer True "d['timing']['decode_us'] > 0 and d['timing']['total_us'] > 0"
    fi
  done
done
counts 8 4
is 4 convoyd_cache_entries
is 4 'convoyd_images_total{model="two"}'
is 4 'convoyd_queue_seconds_count{model="two"}'
is 12 'convoyd_request_seconds_count{model="two"}'
is 0 'convoyd_queue_images{model="two"}'
is 0 convoyd_slots_in_use

echo "The answer is kept, not its words."
classify "${samples[0]}" 'classify?top=1'
answer 1 "len(d['results'][0]['predictions'])"
answer 1 "d['cached']"
counts 9 4

echo "Versions are apart."
classify "${samples[0]}" versions/1/classify
answer False "'cached' in d"
classify "${samples[0]}" versions/1/classify
answer "1 1" "str(d['cached']) + ' ' + d['version']"
counts 10 5
[ "$(json "$work/stats" "[(v['inference_stats']['cache_hit']['count'], v['inference_stats']['cache_miss']['count']) for v in d['model_stats']]")" = "[(1, 1), (9, 4)]" ] ||
  fail "$(cat "$work/stats")"

echo "Forms: what is twice in one is computed twice, and found the next time."
form=(-F "a=@$work/1.png" -F "b=@${samples[0]}" -F "c=@$work/1.png" -F "d=@README.md" -F "e=@$work/2.png")
expect 200 "${form[@]}" "$url/v2/models/two/classify"
answer 1 "d['cached']"
answer "True 415" "str(d['batch_size'] > 0 and d['device'] == 'cpu') + ' ' + str(d['results'][3]['status'])"
counts 11 8
is 7 convoyd_cache_entries # 4, version 1, and two colours
results >"$work/first"
expect 200 "${form[@]}" "$url/v2/models/two/classify"
answer "4 0" "str(d['cached']) + ' ' + str(d['batch_size'])"
counts 15 8
[ "$(results)" = "$(cat "$work/first")" ] || fail "another answer: $(cat "$work/first" "$work/body")"

echo "Tensors: the bytes that a slot gets are what counts."
infer "$work/u8" # as 1.png
counts 16 8
cmp "$work/body" "$work/without.u8" || fail "another answer: $(cat "$work/body")"
infer "$work/f32"
counts 16 9
cmp "$work/body" "$work/without.f32" || fail "another answer: $(cat "$work/body")"
infer "$work/f32"
counts 17 9
cmp "$work/body" "$work/without.f32" || fail "another answer: $(cat "$work/body")"

echo "What is neither looked up nor kept."
for _ in 1 2; do
  classify "${samples[0]}" 'classify?profile=1'
  answer "False True 1" "str('cached' in d) + ' ' + str(len(d['layers']) > 0) + ' ' + str(d['batch_size'])"
  classify "$work/3.png" 'classify?profile=1'
  answer False "'cached' in d"
  expect 415 --data-binary text "$url/v2/models/two/classify"
  expect 200 --data-binary "@${samples[0]}" "$url/v2/models/never/classify"
  answer False "'cached' in d"
done
counts 17 9
counts 0 0 never
classify "$work/3.png" # the profiles left nothing
counts 17 10

echo "Images that were given up are not kept."
in_use() { [ "$(sample convoyd_slots_in_use)" = 1 ]; }
unused() { [ "$(sample convoyd_slots_in_use)" = 0 ]; }
entries=$(sample convoyd_cache_entries)
worker=$(workers)
stand_still "$worker"
expect 503 --data-binary "@$work/5.png" "$url/v2/models/two/classify?timeout_ms=200"
kill -CONT "$worker"
until_true 10 unused || fail "the slot is not given back"
is "$entries" convoyd_cache_entries
counts 17 11
classify "$work/5.png"
answer False "'cached' in d"
counts 17 12
is $((entries + 1)) convoyd_cache_entries

echo "Images that ran again are not kept, and what an earlier worker computed is not taken."
entries=$(sample convoyd_cache_entries)
stand_still "$worker"
classify "$work/4.png" &
request=$!
until_true 10 in_use || fail "the request is not on its way"
kill -KILL "$worker"
wait $request || fail "the request was not answered"
counts 17 13
answer "1 False" "str(d['retries']) + ' ' + str('cached' in d)"
is "$entries" convoyd_cache_entries
classify "$work/4.png"
counts 17 14
is $((entries + 1)) convoyd_cache_entries
classify "$work/4.png"
counts 18 14
classify "${samples[0]}"
[ "$(results)" = "$(cat "$work/without.0")" ] || fail "another answer"
counts 18 15

echo "Forms that the decode pool works on: nothing of one but hits, and hits among others."
form=()
for _ in {1..150}; do form+=(-F "i=@${samples[0]}"); done
for _ in 1 2 3; do
  expect 200 "${form[@]}" "$url/v2/models/two/classify"
  answer "150 0" "str(d['cached']) + ' ' + str(d['batch_size'])"
  answer True "all(r == $(cat "$work/without.0")[0] for r in d['results'])"
done
expect 200 "${form[@]}" -F "j=@${samples[1]}" "${form[@]}" "$url/v2/models/two/classify"
answer "300 1 cpu" "str(d['cached']) + ' ' + str(d['batch_size']) + ' ' + d['device']"
counts 768 16
is 0 'convoyd_queue_images{model="two"}'
stop

echo "The bound."
configure 'response_cache={"bytes": 200000}' 'images={"max_per_request": 64}'
start --backend cpu --models "$models" --config "$work/config.json"
"$python" -S - "$url" >"$work/said" <<'PYTHON' || fail "$(cat "$work/said")"
import http.client, json, random, re, sys, urllib.parse

ROW, OUTPUTS, BOUND = 3 * 32 * 32, 10, 200000
connection = http.client.HTTPConnection(urllib.parse.urlparse(sys.argv[1]).netloc)

def ask(method, path, body=None, headers={}):
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        sys.exit(f"{path}: {answer.status} {text}")
    return answer, text

def infer(rows):
    head = {"inputs": [{"name": "image", "datatype": "UINT8", "shape": [len(rows), 3, 32, 32],
                        "parameters": {"binary_data_size": len(rows) * ROW}}],
            "parameters": {"binary_data_output": True}}
    head = json.dumps(head).encode()
    answer, text = ask("POST", "/v2/models/two/infer", head + b"".join(rows), {"Inference-Header-Content-Length": str(len(head))})
    outputs = text[int(answer.getheader("Inference-Header-Content-Length")):]
    size = OUTPUTS * 4
    return [outputs[i * size:(i + 1) * size] for i in range(len(rows))]

def metrics():
    text = ask("GET", "/metrics")[1].decode()
    return {name: int(value) for name, value in re.findall(r"^convoyd_cache_(\w+)(?:{model=\"two\"})? (\d+)$", text, re.M)}

random.seed(1)
rows = [random.randbytes(ROW) for _ in range(300)]
asked = hits = 0
most = 0
for turn in range(60):
    chosen = random.sample(rows[:40], 15) + random.sample(rows, 5)
    infer(chosen)
    asked += len(chosen)
    now = metrics()
    most = max(most, now["bytes"])
    if now["bytes"] > BOUND or now["bytes"] < now["entries"] * (ROW + OUTPUTS * 4):
        sys.exit(f"turn {turn}: {now}")
    if now["hits_total"] + now["misses_total"] != asked:
        sys.exit(f"{asked} were asked for: {now}")
if not now["evictions_total"] > 0 or not now["hits_total"] > 0 or most < BOUND // 2:
    sys.exit(f"{now}, at most {most}")
if now["entries"] + now["evictions_total"] > now["misses_total"]:
    sys.exit(f"more came in than was missed: {now}")
# One by one: what is found is the row's own, to the last bit, whatever was found for others meanwhile.
alone = {row: infer([row])[0] for row in rows[:8]}
for row in rows[:8] * 3:
    if infer([row])[0] != alone[row]:
        sys.exit("a row has another's answer")
print(f"passed: {now}, at most {most} bytes")
PYTHON
cat "$work/said"

echo "convoy classify says where the answer is from."
for _ in 1 2; do "$build/bin/convoy" classify --url "$url" --model two "${samples[0]}" >"$work/said"; done
grep -q 'two version .* from the response cache' "$work/said" || fail "it says $(cat "$work/said")"
stop
echo "passed"
