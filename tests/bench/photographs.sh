#!/usr/bin/env bash
# Photographs over HTTP: JPEGs of 500 x 375 and 1920 x 1080 to a network, decoded by the GPU's engines and by the front, in turns; 256
# connections and one. Beside them the engines alone, the network alone, and a bare server that takes the same bodies.
#   tests/bench/photographs.sh [--peer WHEELS] [MODEL.onnx|SOURCE:NAME [ROUNDS [SECONDS [PRECISION]]]]     torchvision:resnet50 3 5 fp16
# A network of torchvision or timm is exported first (networks_export.py; needs PyTorch). Without PyTorch, or a GPU: cifar10-resnet.
# --peer measures, in the same turns, what people would write (peer_photographs.py, which says what its environment may set): FastAPI and
# uvicorn from the folder WHEELS (pip download -d WHEELS fastapi uvicorn uvloop httptools), or as they are installed for "installed"; PyTorch and
# torchvision of PEER_PYTHON; with each number of processes in PEER_PROCESSES ("1 4"). PEER_DEVICE=cpu tries that without a GPU.
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
wheels=
if [ "${1:-}" = --peer ]; then
  wheels=${2:?--peer needs a folder of wheels, or the word installed}
  [ "$wheels" = installed ] || [ -d "$wheels" ] || die "there is no folder $wheels: pip download -d $wheels fastapi uvicorn uvloop httptools"
  shift 2
fi
network=${1:-torchvision:resnet50} rounds=${2:-3} seconds=${3:-5} precision=${4:-fp16}
needs wrk wrk
backend_here cuda mhd_least
options='' many=256 asked=200
engines_here
if [ -n "$emulated" ]; then
  network=pixels rounds=1 seconds=3 many=4 asked=5 options=', "tune": "off", "batching": {"max_batch": 4}, "worker": {"hang_timeout_ms": 20000}'
fi

model=$work/models/net
rm -rf "$measured"
mkdir -p "$model/1"
input='{"preset": "imagenet"}'
case $network in
  pixels)
    rm -r "$model"
    "$python" tests/tools/pixel_model.py "$model" 3 8 8
    ;;
  *:*)
    if ! "$python" tests/bench/networks_export.py "$network" "$model/1/model.onnx" >"$work/export" 2>&1; then
      echo "$network cannot be exported ($(tail -n 1 "$work/export")): cifar10-resnet instead"
      network=models/cifar10-resnet/1/model.onnx input='{}'
      cp "$network" "$model/1/model.onnx"
    fi
    ;;
  *)
    cp "$network" "$model/1/model.onnx"
    [[ $network != models/* ]] || input='{}'
    ;;
esac
[ "$network" = pixels ] || printf '{"input": %s, "precision": "%s"}' "$input" "$precision" >"$model/config.json"
printf '{"images": {"decoder": "gpu"}%s}' "$options" >"$work/config.json"

for size in "500 375" "1920 1080"; do
  read -r width height <<<"$size"
  for i in 1 2 3 4; do
    "$python" tests/bench/photograph.py "$width" "$height" "$work/$width-$i.jpg" || die "Pillow is missing (Debian package python3-pil)"
  done
done
start_least echo
serve cuda --config "$work/config.json" --models "$work/models"
until_tuned cuda net
worker=$(pgrep -P "$daemon" convoy-worker)
grep -o 'text="JPEG files[^"]*"' "$work/log" || echo "the log says nothing of JPEG files"

# install_peer: puts FastAPI and uvicorn where peer_python finds them; false, with a line, where something is missing.
peer_python=${PEER_PYTHON:-$python} site=
peer() { PYTHONPATH=$site exec "$peer_python" "$@"; } # in a subshell
install_peer() {
  local missing
  if [ "$wheels" != installed ]; then
    local pip=("$peer_python" -m pip install -q --disable-pip-version-check --no-index --find-links "$wheels" --target "$work/site")
    # Their faster loop and parser are not of pure Python: there may be none for this one.
    "${pip[@]}" fastapi uvicorn uvloop httptools >"$work/pip" 2>&1 || "${pip[@]}" --upgrade fastapi uvicorn >"$work/pip" 2>&1 ||
      { echo "The peer is left out: $wheels cannot be installed: $(tail -n 1 "$work/pip")"; return 1; }
    site=$work/site
  fi
  missing=$(peer tests/bench/peer_photographs.py "$work/500-1.jpg" 2>&1) || { echo "The peer is left out: $(tail -n 1 <<<"$missing")"; return 1; }
  echo "The peer: $missing, $(peer -c 'import fastapi, importlib.util, uvicorn
print("FastAPI", fastapi.__version__, "uvicorn", uvicorn.__version__, "uvloop" if importlib.util.find_spec("uvloop") else "without uvloop")')"
}

# start_peer PROCESSES: and waits until each has compiled its network; adds "PROCESSES PID URL" to peers.
start_peer() {
  local port end=$((SECONDS + ${PEER_PATIENCE_S:-400})) pid
  port=$(free_port)
  : >"$work/peer-$1.log"
  (cd tests/bench && export PEER_NETWORK=${PEER_NETWORK:-$peer_network} && peer -m uvicorn peer_photographs:app --workers "$1" --no-access-log \
    --timeout-worker-healthcheck 600 --port "$port" >"$work/peer-$1.log" 2>&1) &
  pid=$!
  pids+=("$pid")
  until [ "$(grep -c 'Application startup complete' "$work/peer-$1.log")" -ge "$1" ]; do
    kill -0 "$pid" 2>/dev/null || { echo "The peer with $1 processes has ended: $(tail -n 3 "$work/peer-$1.log")"; return 0; }
    [ $SECONDS -lt $end ] || { echo "The peer with $1 processes was not ready in time: $(tail -n 3 "$work/peer-$1.log")"; return 0; }
    sleep 1
  done
  peers+=("$1 $pid http://127.0.0.1:$port/classify?top=1")
}

# timed NAME URL CONNECTIONS PID...: a round; appends "rate p50 p99 errors us" to $work/NAME: processor time a picture, of these.
timed() {
  local before result
  before=$(ticks "${@:4}")
  result=$(drive "$2" "$3" "$seconds")
  echo "$result $(awk -v t="$(($(ticks "${@:4}") - before))" -v n="${result%% *}" -v s="$seconds" \
    'BEGIN { printf "%.1f", (n > 0 ? t * 10000 / (n * s) : 0) }')" >>"$work/$1"
}
# show TITLE NAME
show() {
  printf '  %-28s %8s pictures/s, p50 %7.2f ms, p99 %7.2f ms, %7s us of processor time, errors %s\n' "$1" "$(median 1 <"$work/$2")" \
    "$(median 2 <"$work/$2" | awk '{ print $1 / 1000 }')" "$(median 3 <"$work/$2" | awk '{ print $1 / 1000 }')" "$(median 5 <"$work/$2")" \
    "$(awk '{ s += $4 } END { print s + 0 }' "$work/$2")"
}

peers=() peer_network=resnet50
case $network in torchvision:*) peer_network=${network#*:} ;; esac
if [ -n "$wheels" ] && install_peer; then
  for number in ${PEER_PROCESSES:-1 4}; do start_peer "$number"; done
fi

counted=convoyd_undecoded_images_total
for size in "500 375" "1920 1080"; do
  read -r width height <<<"$size"
  export IMAGE=$work/$width-1.jpg
  classify="$url/v2/models/net/classify?top=1"
  for by in gpu cpu; do
    curl -fsS --data-binary "@$IMAGE" "$classify&decoder=$by" >"$work/answer"
    grep -q "\"decoder\":\"$by\"" "$work/answer" || echo "  not decoded by the $by: $(cat "$work/answer")"
  done
  for peer in "${peers[@]}"; do
    curl -fsS --data-binary "@$IMAGE" "${peer##* }" >"$work/answer" || die "the peer does not answer: $(tail -n 3 "$work"/peer-*.log)"
    grep -q '"probability":' "$work/answer" || die "the peer answers $(cat "$work/answer")"
  done
  for ((i = 0; i < rounds; i++)); do
    for peer in "${peers[@]}"; do
      read -r number pid peer_url <<<"$peer"
      mapfile -t family < <(descendants "$pid")
      timed "$width-peer$number-many" "$peer_url" $many "${family[@]}"
      timed "$width-peer$number-1" "$peer_url" 1 "${family[@]}"
    done
    for by in gpu cpu; do
      timed "$width-$by-many" "$classify&decoder=$by" $many "$daemon" "$worker"
      timed "$width-$by-1" "$classify&decoder=$by" 1 "$daemon" "$worker"
    done
    drive "http://127.0.0.1:$least_port/" $many "$seconds" >>"$work/$width-bare"
  done
  echo "$width x $height, $(stat -c %s "$IMAGE") bytes, $network, $rounds rounds of $seconds s"
  for by in gpu cpu; do
    show "decoder $by, $many connections" "$width-$by-many"
    show "decoder $by, one" "$width-$by-1"
  done
  for peer in "${peers[@]}"; do
    number=${peer%% *}
    show "peer, $number processes, $many" "$width-peer$number-many"
    show "peer, $number processes, one" "$width-peer$number-1"
    printf '  ratio of gpu to the peer with %s processes: %s at %s connections, %s at one\n' "$number" \
      "$(ratios "$work/$width-gpu-many" "$work/$width-peer$number-many")" $many "$(ratios "$work/$width-gpu-1" "$work/$width-peer$number-1")"
  done
  printf '  %-28s %8s bodies/s\n' "bare server, $many connections" "$(median 1 <"$work/$width-bare")"
  printf '  ratio of gpu to cpu: %s at %s connections, %s at one\n' "$(ratios "$work/$width-gpu-many" "$work/$width-cpu-many")" $many \
    "$(ratios "$work/$width-gpu-1" "$work/$width-cpu-1")"
done
# Where a request's time goes with one connection: the answer's own stages, medians.
for width in 500 1920; do
  for by in gpu cpu; do
    "$python" - "$url/v2/models/net/classify?top=1&decoder=$by" "$work/$width-1.jpg" $asked <<'PYTHON' | sed "s/^/  $width, $by: /"
import http.client, json, statistics, sys, urllib.parse
url, body = urllib.parse.urlsplit(sys.argv[1]), open(sys.argv[2], "rb").read()
connection, stages = http.client.HTTPConnection(url.netloc), {}
for _ in range(int(sys.argv[3])):
    connection.request("POST", f"{url.path}?{url.query}", body)
    for stage, us in json.loads(connection.getresponse().read())["timing"].items():
        stages.setdefault(stage, []).append(us)
print(", ".join(f"{stage} {statistics.median(us):.0f}" for stage, us in stages.items()))
PYTHON
  done
done
echo "files that came back from the device: $(curl -fsS "$url/metrics" | awk -v n=$counted 'index($0, n "{") == 1 { s += $NF } END { print s + 0 }')"
end_daemon

# What bounds it.
for width in 500 1920; do
  files=("$work/$width"-[1-4].jpg)
  if [ -x "$build/bin/bench_nvjpeg_rate" ] && [ -z "$emulated" ]; then
    "$build/bin/bench_nvjpeg_rate" 64 1 "${files[@]}" 2>/dev/null | grep 'engines, YUV' | sed "s/^/  $width: nvJPEG alone: /" || true
  fi
  if [ -x "$build/bin/bench_jpeg_rate" ] && [ -z "$emulated" ]; then
    # With a small network: its input is not normalised here, which a larger one may not hold in fp16.
    "$build/bin/bench_jpeg_rate" cuda models/cifar10-convnet/1/model.onnx 64 1 fp16 0 "${files[@]}" 2>/dev/null |
      sed "s/^/  $width: the backend alone, cifar10-convnet: /" || true
  fi
done
# Floats, because pixels that are not normalised may not fit fp16: then each batch runs twice.
if [ -x "$build/bin/bench_backend_rate" ] && [ -z "$emulated" ]; then
  echo "  the network alone, floats of 4 bytes, batches of 64 (images/s, compute us): $("$build/bin/bench_backend_rate" cuda "$model/1/model.onnx" 64 3 f32 "$precision" 2>&1 | tail -n 1)"
fi
