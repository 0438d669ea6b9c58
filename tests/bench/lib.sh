# shellcheck shell=bash
# What the measuring scripts share. A script ends what it started, whatever happens.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${CONVOY_BUILD:-build}
# What a pack brings along (tests/gpu/pack.sh) goes before what the machine has.
[ ! -x "$build/bin/wrk" ] || PATH=$(cd "$build/bin" && pwd):$PATH
# One device is measured; devices.sh, which measures two, does without this file.
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
# The system's own Python has Pillow on Debian; elsewhere the one in PATH may.
python=/usr/bin/python3
"$python" -c 'import PIL' 2>/dev/null || python=$(command -v python3)
work=$(mktemp -d)
pids=()
# shellcheck disable=SC2317 # the trap calls it
end() {
  [ ${#pids[@]} -eq 0 ] || kill -TERM "${pids[@]}" 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap end EXIT
# What runs in the foreground gets the signal too; the script must not go on with the next.
trap 'exit 130' INT
trap 'exit 143' TERM

die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

needs() { # COMMAND DEBIAN-PACKAGE
  command -v "$1" >/dev/null || die "$1 is missing (Debian package $2)"
}

free_port() {
  "$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# small_jpeg: a JPEG of 32 x 32 pixels and about 1,000 bytes, in $IMAGE, which post.lua sends. The samples are
# larger: decoding them is most of the work.
small_jpeg() {
  export IMAGE=$work/small.jpg
  "$python" - models/samples/ship.jpg "$IMAGE" <<'PYTHON' || die "Pillow is missing (Debian package python3-pil)"
import sys
from PIL import Image
Image.open(sys.argv[1]).resize((32, 32), Image.BILINEAR).save(sys.argv[2], quality=85)
PYTHON
}

# The model that is measured, alone: figures stay comparable however many ship.
measured=$work/models
mkdir "$measured"
cp -r models/cifar10-convnet "$measured"

# serve BACKEND [OPTION...]: starts convoyd with them, waits until it is ready, sets $url and $daemon.
serve() {
  : >"$work/log"
  "$build/bin/convoyd" --listen 127.0.0.1:0 --backend "$@" 2>"$work/log" &
  daemon=$!
  pids+=("$daemon")
  until url=http://127.0.0.1:$(sed -n 's/.*msg="convoyd listens".* port=\([0-9]*\).*/\1/p' "$work/log") &&
    curl -fs -o /dev/null "$url/v2/health/ready"; do
    kill -0 "$daemon" 2>/dev/null || die "convoyd ended: $(cat "$work/log")"
    sleep 0.05
  done
}

# end_daemon: and waits for it.
end_daemon() {
  kill -TERM "$daemon"
  wait "$daemon" || true
}

# backend_here BACKEND [PROGRAM...]: for cuda where there is no GPU, $build becomes a tree that has the emulation of one
# (tests/emulation) and these programs of $build/bin; $emulated is then not empty.
backend_here() {
  emulated=
  [ "$1" = cuda ] || return 0
  ! "$build/bin/convoy-worker" --check models/cifar10-convnet/1/model.onnx --backend cuda >"$work/check" 2>&1 || return 0
  emulated=$build/tests/emulation/convoy-backend-cuda-emulated.so
  [ -e "$emulated" ] || die "there is neither a GPU nor an emulated one: $(tail -n 1 "$work/check")"
  shift
  mkdir -p "$work/emulated/bin"
  local program
  for program in convoyd convoy-worker "$@"; do cp "$build/bin/$program" "$work/emulated/bin/"; done
  cp "$emulated" "$work/emulated/bin/convoy-backend-cuda.so"
  build=$work/emulated
}

# engines_here: where the GPU is an emulated one, finds the stand-in for nvJPEG, which decodes what a GPU's JPEG engines would.
engines_here() {
  [ -n "$emulated" ] || return 0
  echo "On an emulated GPU: the figures say nothing."
  LD_LIBRARY_PATH=$(cd "$(dirname "$emulated")/nvjpeg" && pwd)
  export LD_LIBRARY_PATH
}

# start_least [echo [CERTIFICATE KEY]] (with least_scheme=https): starts the bare server (mhd_least.c) with a thread for each core, from the pack where it brings one,
# and sets $least and $least_port.
start_least() {
  local least_program=$build/bin/mhd_least
  if [ ! -x "$least_program" ]; then
    least_program=$work/mhd_least
    # shellcheck disable=SC2046 # flags are words
    [ -x "$least_program" ] || cc -std=gnu11 -O2 -Wall -Wextra tests/bench/mhd_least.c -o "$least_program" \
      $(pkg-config --cflags --libs libmicrohttpd libjpeg) -lpthread
  fi
  least_port=$(free_port)
  "$least_program" "$least_port" "$(nproc)" "$@" &
  least=$!
  pids+=("$least")
  until curl -sk -o /dev/null "${least_scheme:-http}://127.0.0.1:$least_port/"; do
    kill -0 "$least" 2>/dev/null || die "mhd_least ended"
    sleep 0.02
  done
}

# with_front PID...: these, and of a convoyd its front.
with_front() { local pid; for pid in "$@"; do echo "$pid"; pgrep -P "$pid" -x convoyd || true; done; }

# descendants PID: it and all below it.
descendants() { local child; echo "$1"; for child in $(pgrep -P "$1"); do descendants "$child"; done; }

# ticks PID...: processor time so far, in hundredths of a second; of a convoyd with its front.
ticks() { local pid; for pid in $(with_front "$@"); do awk '{ print $14 + $15 }' "/proc/$pid/stat"; done | awk '{ s += $1 } END { print s }'; }

# until_tuned BACKEND [MODEL]: waits, for two minutes at most, until the model (cifar10-convnet) has the kernels that it will keep.
# It is tuned while its device is idle, so never under load. Only a GPU is tuned; an emulated one must be served with "tune": "off".
until_tuned() {
  local end=$((SECONDS + 120))
  [ "$1" = cuda ] && [ -z "$emulated" ] || return 0
  until grep -q "model '${2:-cifar10-convnet}' is tuned" "$work/log"; do
    [ $SECONDS -lt $end ] || { echo "$(basename "$0"): the kernels of ${2:-cifar10-convnet} are not tuned after two minutes" >&2; return 0; }
    sleep 0.1
  done
}

# drive URL CONNECTIONS SECONDS: prints "requests-a-second p50-us p99-us errors". A request is $IMAGE, or a form of
# $PER_REQUEST of it. $WRK_THREADS threads of wrk send it: without that a quarter of the cores, two at least.
drive() {
  [[ $3 =~ ^[1-9][0-9]*$ ]] || die "seconds are whole numbers from 1 on, not '$3'"
  local threads=${WRK_THREADS:-$(($(nproc) / 4))}
  [ "$threads" -ge 2 ] || threads=2
  [ "$2" -ge "$threads" ] || threads=$2
  wrk -t"$threads" -c"$2" -d"$3s" --timeout 20s -s tests/bench/post.lua "$1" | sed -n 's/^RESULT //p'
}

# median [FIELD]: of the numbers in that field of the lines on stdin.
median() { awk -v f="${1:-1}" '{ print $f }' | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# ratios A B: of two files whose lines begin with a figure, taken in turns: the median of the ratios A/B line by
# line, and the least and greatest of them.
ratios() {
  paste <(awk '{ print $1 }' "$1") <(awk '{ print $1 }' "$2") | awk '{ print $1 / $2 }' | sort -n |
    awk '{ v[NR] = $1 } END { printf "%.2f (%.2f to %.2f)", v[int((NR + 1) / 2)], v[1], v[NR] }'
}

# pss PID...: proportional memory of the processes in MB; of a convoyd with its front.
pss() {
  local pid
  for pid in $(with_front "$@"); do awk '/^Pss:/ { print $2 }' "/proc/$pid/smaps_rollup"; done |
    awk '{ sum += $1 } END { printf "%.0f", sum / 1024 }'
}
