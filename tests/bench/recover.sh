#!/usr/bin/env bash
# What starting costs and what a fault costs: tests/bench/recover.sh PACK_OR_BUILD [ROUNDS]
# (a) From exec to the first right answer of the default model, all models in the repository, the tuning cache warm and
#     cold: median of 10 each after one that does not count. 700 ms or less is the aim with a GPU.
# (b) Under 64 connections of /classify, ROUNDS times (10): kill -9 of the worker; then an image that makes the kernel
#     write to an illegal address (on the CPU: that kills the worker), sent once beside them. Median and worst of the
#     figures that tests/tools/recovery_load.py explains. Exit status 1 when a request failed, the poison's excepted.
# The environment may say BACKEND (cuda), MODELS (a folder; models), DEFAULT_MODEL (cifar10-resnet), CONNECTIONS (64),
# RUNS (10), CACHE (a folder for kernel times that stays), SPARES (worker.spares; 1): on a GPU a fault is made when they
# wait. An emulated GPU is not tuned: there it measures nothing but shows that this script works.
[ -x "${1:-}/bin/convoyd" ] || { sed -n '2,11s/^# //p' "$0" >&2; exit 2; }
CONVOY_BUILD=$(cd "$1" && pwd)
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"

rounds=${2:-10}
backend=${BACKEND:-cuda}
connections=${CONNECTIONS:-64}
runs=${RUNS:-10}
settings=("models=\"${MODELS:-models}\"" "default_model=\"${DEFAULT_MODEL:-cifar10-resnet}\"")
tuned=
fault=kill:250,0,250
if [ "$backend" = cuda ]; then
  needs_cuda
  fault=illegal:250,0,250
  if [ -n "$emulated" ]; then
    settings+=('tune="off"' timeout_ms=100000)
  else
    tuned=yes
  fi
fi
warm=${CACHE:-$work/warm}
mkdir -p "$warm"

# first_answer NAME [OPTION OF first_answer.py...]: with the configuration as it stands.
first_answer() {
  local name=$1
  shift
  "$python" tests/tools/first_answer.py "$runs" "$@" "$build/bin/convoyd" --config "$work/config.json" \
    --backend "$backend" >"$work/first.json"
  echo "first right answer, $name: $(json "$work/first.json" '"median %.0f ms of %d runs, %.0f to %.0f ms" %
    (d["median_ms"], len(d["runs_ms"]), min(d["runs_ms"]), max(d["runs_ms"]))')"
}

# shellcheck disable=SC2317 # until_true calls it
has_tuned() { sed -n "s/.*worker's phase.* phase=//p" "$work/log" | tr '\n' ' ' | grep 'tuning running $' >/dev/null; }

configure "${settings[@]}" "cache_dir=\"$work/cold\""
first_answer 'tuning cache cold' --fresh "$work/cold"
if [ -n "$tuned" ]; then
  configure "${settings[@]}" "cache_dir=\"$warm\"" 'log={"level": "debug"}'
  begun=$SECONDS
  start --config "$work/config.json" --backend "$backend"
  until_true 1200 has_tuned || fail "the worker did not come to the end of tuning within 20 minutes"
  echo "tuning all models: $((SECONDS - begun)) s"
  stop
  configure "${settings[@]}" "cache_dir=\"$warm\""
  first_answer 'tuning cache warm'
fi

# deaths: how many workers were replaced so far, by the log.
deaths() { grep -c 'worker died and is replaced' "$work/log" || true; }

# fault NAME OPTION...: one round of recovery_load.py with the daemon that runs; its figures are a line of $work/NAME.
status=0
fault() {
  local name=$1 before
  shift
  before=$(deaths)
  "$python" tests/tools/recovery_load.py "$url" --connections "$connections" "$@" >"$work/round.json" || {
    status=1
    echo "a request failed: $(cat "$work/round.json")" >&2
  }
  [ -s "$work/round.json" ] || fail "recovery_load.py gave no figures"
  "$python" -c 'import json, sys
print(json.dumps({**json.load(sys.stdin), "workers_died": int(sys.argv[1])}))' $(($(deaths) - before)) <"$work/round.json" >>"$work/$name"
}

# table NAME: median and worst of each figure over the rounds.
table() {
  "$python" - "$work/$1" <<'PYTHON'
import json, statistics, sys
rounds = [json.loads(line) for line in open(sys.argv[1])]
requests, failed = (sum(r[key] for r in rounds) for key in ("requests", "failed"))
print("  %d rounds, %d requests, %d failed" % (len(rounds), requests, failed))
print("  %-16s %10s %10s" % ("", "median", "worst"))
for key in ("rate_before", "gap_before_ms", "p99_before_ms", "gap_ms", "silent_ms", "again_ms", "settled_ms",
            "rate_back_ms", "p99_ms", "longest_ms", "retried", "workers_died", "poison_ms"):
    values = [r[key] for r in rounds if key in r]
    if values:
        worst = min(values) if key == "rate_before" else max(values)
        print("  %-16s %10.1f %10.1f" % (key, statistics.median(values), worst))
PYTHON
}

configure "${settings[@]}" "cache_dir=\"$warm\"" "worker={\"spares\": ${SPARES:-1}}"
"$python" tests/tools/solid_png.py "$work/poison.png" 250 0 250
export CONVOY_TEST_FAULT=$fault
start --config "$work/config.json" --backend "$backend"
# shellcheck disable=SC2317 # until_true calls it
spares_wait() { [ "$(pgrep -c -P "$daemon" convoy-spare)" = "${SPARES:-1}" ]; }
rest() { [ -z "$tuned" ] || until_true 60 spares_wait || fail "no spare waits"; }
for ((round = 0; round < rounds; round++)); do
  rest
  fault kill --kill "$(workers | head -n 1)"
  rest
  fault poison --poison "$work/poison.png"
done
stop
echo "kill -9 of the worker under $connections connections:"
table kill
echo "an image that kills its worker ($fault) under $connections connections:"
table poison
exit $status
