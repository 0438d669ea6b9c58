#!/usr/bin/env bash
# sanitize: all
# /metrics after traffic: promtool has nothing to say, the names are those that are promised, the numbers those of the
# traffic, and what needs a GPU is not there.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=models/samples/ship.jpg
mkdir "$work/models" # one model, so that its samples are the only ones
cp -r models/cifar10-convnet "$work/models"
start --backend cpu --models "$work/models"
worker=$(workers)
expect 200 "$url/metrics"
[ "$(sample convoyd_slots_in_use)" = 0 ] || fail "no slots at the start"

for _ in {1..5}; do expect 200 --data-binary @$image "$url/classify"; done
expect 200 -F "a=@$image" -F "b=@$image" -F "c=@$image" "$url/v2/models/cifar10-convnet/classify"
expect 200 -F "a=@$image" -F "b=@README.md" "$url/v2/models/cifar10-convnet/versions/1/classify"
expect 415 --data-binary text "$url/classify"
expect 415 --data-binary text "$url/classify"
expect 404 --data-binary @$image "$url/classify?model=nobody"
expect 404 --data-binary @$image "$url/v2/models/x%22%0ay/classify"
expect 404 "$url/no/such/path/at/all"
expect 405 "$url/classify"
logged() { grep -q "$@" "$work/log"; }
kill -KILL "$worker"
until_true 10 logged 'worker died' || fail "the worker's death was not noticed"
expect 200 --data-binary @$image "$url/classify" # waits for the next worker
# Processes are read once a second, and the worker is a new one, which may not have computed for a hundredth of a second.
of_processes() {
  curl -fsS "$url/metrics" | awk '/^(process|convoyd_worker)_(cpu|resident|virtual|open|max|start)/ { n++; zero += $2 == 0 && !/cpu/ } END { exit n != 12 || zero }'
}
until_true 20 of_processes || fail "$(curl -fsS "$url/metrics" | grep -E '^(process|convoyd_worker)_')"
# The connection of the question before may be open yet.
asked_alone() { expect 200 "$url/metrics" && grep -x 'convoyd_connections 1' "$work/body"; }
until_true 20 asked_alone || fail "$(grep convoyd_connections "$work/body")"
grep -qi '^content-type: text/plain; version=0.0.4' "$work/headers" || fail "$(cat "$work/headers")"
cp "$work/body" "$work/metrics"

echo "The numbers."
# is SAMPLE VALUE
is() { [ "$(awk -v name="$1 " 'index($0, name) == 1 { print $NF }' "$work/metrics")" = "$2" ] || fail "$1 is not $2: $(grep -F "${1%%\{*}" "$work/metrics")"; }
model='model="cifar10-convnet"'
is "convoyd_requests_total{$model,route=\"/classify\",status=\"200\"}" 6
is "convoyd_requests_total{$model,route=\"/classify\",status=\"415\"}" 2
is "convoyd_requests_total{$model,route=\"/v2/models/{model}/classify\",status=\"200\"}" 1
is "convoyd_requests_total{$model,route=\"/v2/models/{model}/versions/{version}/classify\",status=\"200\"}" 1
is 'convoyd_requests_total{model="",route="/classify",status="404"}' 1
is 'convoyd_requests_total{model="",route="/v2/models/{model}/classify",status="404"}' 1
is 'convoyd_requests_total{model="",route="",status="404"}' 1
is 'convoyd_requests_total{model="",route="/classify",status="405"}' 1
is "convoyd_images_total{$model}" 10
is "convoyd_queue_images{$model}" 0
is "convoyd_batch_size_sum{$model}" 10
is "convoyd_compute_seconds_count{$model}" "$(awk '/^convoyd_batch_size_count/ { print $NF }' "$work/metrics")"
is "convoyd_request_seconds_count{$model}" 10
is convoyd_slots_in_use 0
is convoyd_connections 1
[ "$(awk '/^process_max_fds/ { print $2 }' "$work/metrics")" = "$(awk '/^Max open files/ { print $4 }' "/proc/$(front)/limits")" ] ||
  fail "$(grep ^process_ "$work/metrics")"
[ "$(awk '/^convoyd_received_bytes_total/ { print ($2 > 40000) }' "$work/metrics")" = 1 ] || fail "$(grep bytes_total "$work/metrics")"
is 'convoyd_worker_up{device="cpu"}' 1
is 'convoyd_model_ready{model="cifar10-convnet",version="1"}' 1
grep -q '^convoyd_worker_restarts_total{device="cpu",reason="[a-z]*"} 1$' "$work/metrics" || fail "$(grep restarts "$work/metrics")"
[ "$(awk '/^convoyd_weight_bytes/ { print ($NF > 10000) }' "$work/metrics")" = 1 ] || fail "$(grep weight "$work/metrics")"
grep -q 'nobody\|no/such' "$work/metrics" && fail "what clients make up becomes a label"

echo "The names."
cat >"$work/promised" <<'NAMES'
convoyd_requests_total counter model,route,status
convoyd_images_total counter model
convoyd_batches_total counter model,device
convoyd_batch_size histogram model
convoyd_decode_seconds histogram model
convoyd_wait_seconds histogram model
convoyd_queue_seconds histogram model
convoyd_input_seconds histogram model
convoyd_compute_seconds histogram model
convoyd_output_seconds histogram model
convoyd_request_seconds histogram model
convoyd_queue_images gauge model
convoyd_slots_in_use gauge
convoyd_connections gauge
convoyd_refused_connections_total counter
convoyd_received_bytes_total counter
convoyd_sent_bytes_total counter
process_cpu_seconds_total counter
process_resident_memory_bytes gauge
process_virtual_memory_bytes gauge
process_open_fds gauge
process_max_fds gauge
process_start_time_seconds gauge
convoyd_worker_cpu_seconds_total counter device
convoyd_worker_resident_memory_bytes gauge device
convoyd_worker_virtual_memory_bytes gauge device
convoyd_worker_open_fds gauge device
convoyd_worker_max_fds gauge device
convoyd_worker_start_time_seconds gauge device
convoyd_front_restarts_total counter reason
convoyd_worker_up gauge device
convoyd_worker_restarts_total counter device,reason
convoyd_device_checks_total counter device,check,result
convoyd_retried_images_total counter model
convoyd_spared_images_total counter model
convoyd_decoded_images_total counter model,decoder
convoyd_undecoded_images_total counter model
convoyd_weight_bytes gauge model,version,device
convoyd_model_ready gauge model,version
convoyd_model_failures_total counter model,version
convoyd_build_info gauge version
NAMES
"$python" - "$work/metrics" "$work/promised" <<'PYTHON' || fail "see above"
import re, sys
types, labels = {}, {}
for line in open(sys.argv[1]):
    if line.startswith("# TYPE "):
        _, _, name, kind = line.split()
        types[name] = kind
    elif not line.startswith("#"):
        name, _, rest = re.match(r"([a-z_]+)(\{(.*)\})? ", line).groups()
        rest = rest or ""
        base = re.sub("_(bucket|sum|count)$", "", name)
        base = base if types.get(base) == "histogram" else name
        labels.setdefault(base, set()).add(tuple(k for k in re.findall(r'(\w+)="', rest) if k != "le"))
promised = {}
for line in open(sys.argv[2]):
    name, kind, *keys = line.split()
    promised[name] = (kind, set(keys[0].split(",")) if keys else set())
wrong = 0
for name in promised.keys() | types.keys():
    found = (types.get(name), *({frozenset(keys) for keys in labels.get(name, {()})}))
    if name not in promised or found != (promised[name][0], frozenset(promised[name][1])):
        print(f"{name}: found {found}, promised {promised.get(name)}")
        wrong += 1
sys.exit(wrong > 0)
PYTHON
grep -q cuda "$work/metrics" && fail "what needs a GPU is there"
stop

command -v promtool >/dev/null || skip "there is no promtool (package prometheus); the rest passed"
promtool check metrics <"$work/metrics" >"$work/promtool" 2>&1 || fail "promtool: $(cat "$work/promtool")"
[ ! -s "$work/promtool" ] || fail "promtool: $(cat "$work/promtool")"
echo "passed"
