#!/usr/bin/env bash
# What a daemon is for: 10,000 images classified by a process that starts for them and ends (oneshot.c), beside the same
# images sent to a daemon that is up; and what either costs in calls of the CUDA runtime, seen from outside with CUPTI.
#   tests/bench/oneshot.sh PACK_OR_BUILD [IMAGES]
# In the environment: MODELS, ROUNDS (5), BATCH (256, for both), STREAMS (of the process, 1), FORM (images a request, 250),
# CONNECTIONS (16), BACKEND (cuda; without a GPU its emulation). Neither side tunes, and the calls are counted in runs of their
# own: CUPTI costs time.
[ $# -ge 1 ] || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
CONVOY_BUILD=$(cd "$1" && pwd)
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
images=${2:-10000}
backend=${BACKEND:-cuda}
connections=${CONNECTIONS:-16}
read -ra names <<<"${MODELS:-fashion-ece408 cifar10-convnet}"
program() { "$python" tests/bench/oneshot.py "$@"; }

backend_here "$backend" bench_oneshot
once=("$build/bin/bench_oneshot" "$backend" "${STREAMS:-1}")
calls=yes
if [ "$backend" != cuda ]; then
  calls="the calls of the CUDA runtime are left out: the backend $backend makes none"
elif [ -n "$emulated" ]; then
  calls="the calls of the CUDA runtime are left out: the GPU is an emulated one, which CUPTI does not see"
elif ! tests/gpu/count_calls.sh "$work/count.so" >"$work/cupti" 2>&1; then
  calls="the calls of the CUDA runtime are left out: $(tail -n 1 "$work/cupti")"
fi

# with_batch MODEL...: a repository of these, with $BATCH.
with_batch() {
  "$python" - "$work/served" "${BATCH:-256}" "$@" <<'PYTHON'
import json, pathlib, shutil, sys
served, batch, *names = sys.argv[1:]
for name in names:
    home = pathlib.Path(served, name)
    shutil.copytree(pathlib.Path("models", name), home)
    config = json.loads((home / "config.json").read_text(encoding="utf-8"))
    config["batching"]["max_batch"] = int(batch)
    (home / "config.json").write_text(json.dumps(config), encoding="utf-8")
PYTHON
}
with_batch "${names[@]}"
# All images may wait at once.
cat >"$work/config.json" <<JSON
{"tune": "off", "timeout_ms": 600000, "batching": {"max_queue": $((images + 4096))}}
JSON
up() { serve "$backend" --config "$work/config.json" --models "$work/served"; }

# written FILE: waits until it has been written twice more, so that it holds what happened before. Fails when it is not.
written() {
  local last now i end=$((SECONDS + 10))
  for ((i = 0; i < 2; i++)); do
    last=$(stat -c %i.%y "$1" 2>/dev/null) || last=none
    until now=$(stat -c %i.%y "$1" 2>/dev/null) && [ "$now" != "$last" ]; do
      [ $SECONDS -lt $end ] || return 1
      sleep 0.02
    done
  done
}
no_calls() { echo "  the calls of the CUDA runtime are left out: CUPTI could not be started in $1"; }
# tables MODEL-FOLDER: of a run each.
tables() {
  local ms file
  rm -f "$work"/alone.*
  ms=$(CUDA_INJECTION64_PATH=$work/count.so CONVOY_CALLS_FILE=$work/alone program once "$1" "${once[@]}")
  file=$(find "$work" -name 'alone.*[0-9]' -print -quit)
  [ -n "$file" ] || { no_calls bench_oneshot; return; }
  echo "  calls of the CUDA runtime, one process for each run (cuInit(), in which CUPTI starts, is not among them):"
  program table "$file" "$ms"
  CUDA_INJECTION64_PATH=$work/count.so CONVOY_CALLS_FILE=$work/daemon up
  file=$work/daemon.$(pgrep -P "$daemon" convoy-worker)
  program send "$1" "$url" "$connections" >"$work/first" # as in the runs that were timed
  written "$file" || { no_calls convoy-worker; end_daemon; return; }
  touch "$file.reset"
  while [ -e "$file.reset" ]; do sleep 0.02; done
  ms=$(program send "$1" "$url" "$connections")
  written "$file"
  echo "  calls of the CUDA runtime, a daemon that is up:"
  program table "$file" "$ms"
  end_daemon
}

for model in "${names[@]}"; do
  mkdir "$work/$model"
  up
  program images "$work/served" "$model" "$images" "${FORM:-250}" "$url" "$work/$model"
  program compare "$work/$model" "${ROUNDS:-5}" "$url" "$connections" "${once[@]}"
  end_daemon
  if [ "$calls" = yes ]; then tables "$work/$model"; else echo "  $calls"; fi
done
