# shellcheck shell=bash
# What the integration tests share. A test is a program test_NAME.sh: exit status 0 passed, 77 cannot run here
# (its last line says why), anything else failed. CONVOY_BUILD names the build to test (default build).
# Lines of its head say how test.sh runs it: "# timed: WHY" and "# alone: WHY" not beside others, because of what it measures
# (tests/runner.sh): without these it must not mind another one beside it. In which builds:
#   # sanitize: yes      in build-asan, in build with ./test.sh --all alone: it behaves in both alike
#   # sanitize: both     in build and build-asan: it judges times, memory or modules that only one of them has
#   # sanitize: all      in build, in build-asan with ./test.sh --all alone
# Without such a line it runs in build alone.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
build=${CONVOY_BUILD:-build}
# shellcheck disable=SC2034 # the tests use it
data=${CONVOY_DATA:-../shared/data}
# The system's Python: python3-pil belongs to it, and it starts faster than what may stand before it in PATH.
python=$(PATH=/usr/bin:$PATH command -v python3)
work=$(mktemp -d)
daemon=
proxy= # a process that the test starts beside the daemon and that ends with the test
url=
closed= # keep_closed sets it

# Admin sockets of "auto" lie in the test's own folder, where convoy finds them, too.
export XDG_RUNTIME_DIR=$work
unset RUNTIME_DIRECTORY CONVOY_KEY

# Under a sanitizer reports of the daemon and its workers, which may have a user of their own, land here; finish() fails the test when
# one exists. A process that cannot write its remarks dies.
chmod 711 "$work"
mkdir -m 1777 "$work/reports"
# LeakSanitizer falls over the thread-local blocks that glibc makes for modules loaded by dlopen().
export ASAN_OPTIONS="intercept_tls_get_addr=0:log_path=$work/reports/sanitizer:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:log_path=$work/reports/sanitizer:${UBSAN_OPTIONS:-}"
export TSAN_OPTIONS="log_path=$work/reports/sanitizer:${TSAN_OPTIONS:-}"

fail() {
  echo "FAILED: $*" >&2
  [ -f "$work/log" ] && { echo "--- the daemon's log" >&2; tail -n 30 "$work/log" >&2; }
  exit 1
}

skip() {
  echo "$*"
  exit 77
}

# finish [STATUS]: what ends every test. A trap of a test's own that does something first must keep $? for it.
finish() {
  local status=${1:-$?}
  [ -z "$daemon" ] || { kill -KILL "$daemon" 2>/dev/null; wait "$daemon" 2>/dev/null; } || true
  [ -z "$proxy" ] || kill -KILL "$proxy" 2>/dev/null || true
  # A thread that ends while the leak sanitizer stops all threads is a remark of it, not an error.
  if grep -hsv 'Unable to get registers from thread' "$work"/reports/sanitizer.* >&2; then status=1; fi
  rm -rf "$work"
  exit "$status"
}
trap finish EXIT

# until_true SECONDS COMMAND...: asks again and again; there is no event to wait for from the outside. The longer it waits the
# more rarely: a curl takes 8 ms of processor time.
until_true() {
  local end=$((${EPOCHREALTIME/[.,]/} + $1 * 1000000)) ms=20 pause # SECONDS may tick at once, and one second be none
  shift
  until "$@" >/dev/null 2>&1; do
    [ "${EPOCHREALTIME/[.,]/}" -lt $end ] || return 1
    printf -v pause '0.%03d' $ms
    sleep "$pause"
    ms=$((ms < 200 ? ms * 5 / 4 : 200))
  done
}

listening() {
  port=$(sed -n 's/.*msg="convoyd listens".* port=\([0-9]*\).*/\1/p' "$work/log" | tail -n 1)
  [ -n "$port" ]
}

# launch ARGUMENTS...: starts convoyd, on a free port unless they have --listen, and sets $daemon and $url, without waiting for a model.
launch() {
  [[ " $* " = *' --listen '* ]] || set -- --listen 127.0.0.1:0 "$@"
  launch_as "$build/bin/convoyd" "$@"
}

# stand_ins_use_files: from now on workers may open any file, as the user who runs the test: a stand-in for a fault or for a device
# (CONVOY_TEST_FAULT, CONVOY_EMULATED_...) is told by files of the test what to do. Not for what is served beside it.
stand_ins_use_files() { by_files=1; }
by_files=

# open_files FILE: changes this configuration accordingly; where there is no such file, it is the shipped one that is changed.
open_files() {
  [ -n "$by_files" ] || return 0
  "$python" -S - "$1" <<'CONFIGURE'
import json, os, sys
file = sys.argv[1]
config = json.load(open(file if os.path.exists(file) else "config/convoyd.json"))
config.setdefault("worker", {}).update({"confine_files": "off"} | ({"user": "root"} if os.geteuid() == 0 else {}))
json.dump(config, open(file, "w"))
CONFIGURE
}

# launch_as COMMAND...: as launch, with a command that becomes convoyd. The log is emptied before: the port that listening
# reads there is never that of the daemon before.
launch_as() {
  : >"$work/log"
  if [ -n "$by_files" ]; then
    [[ " $* " = *' --config '* ]] || set -- "$@" --config "$work/by_files.json"
    configuration=" $* "
    configuration=${configuration#* --config }
    open_files "${configuration%% *}"
  fi
  "$@" 2>"$work/log" &
  daemon=$!
  until_true 60 listening || fail "convoyd did not listen within 60 s"
  url=http://127.0.0.1:$port
}

# listening_unlogged: as listening, and sets $url, where no log says the port: the name of the admin socket does. One that was left by
# another daemon must not be there.
listening_unlogged() {
  port=$(find "$work/convoyd" -name 'admin-*.sock' | sed -n 's/.*admin-\([0-9]*\)\.sock$/\1/p')
  url=http://127.0.0.1:$port
  [ -n "$port" ]
}

# keep_closed: sets $closed to a port of 127.0.0.1 on which nothing listens. It stays bound until the test ends: one that was merely
# free a moment ago is given to one in 14,000 of the daemons that tests beside this one start, and then a server answers there.
keep_closed() {
  coproc closed_port { exec "$python" -S -c 'import socket, sys
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
sys.stdin.read()'; }
  # shellcheck disable=SC2034 # the tests use it
  read -r closed <&"${closed_port[0]}" || fail "no port can be bound"
}

# answer_to PATH: status line, headers and body of what the daemon answers there, if it is 200. Bash sends it: a curl takes 8 ms of
# processor time, and thousands are asked for here.
answer_to() {
  # shellcheck disable=SC2317 # until_true calls it
  if [[ $url != http://127.0.0.1:* ]]; then
    curl -fsS -i "$url$1"
    return
  fi
  {
    printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&6
    awk 'NR == 1 && !/^HTTP\/1\.[01] 200 / { refused = 1; exit } { print } END { exit refused || NR == 0 }' <&6
  } 6<>"/dev/tcp/127.0.0.1/${url##*:}"
}

ready() { answer_to /v2/health/ready >/dev/null; }

# start ARGUMENTS...: launch, then wait until it is ready. A sanitized worker that gets a tenth of a processor needs half a minute.
start() {
  launch "$@"
  until_true 120 ready || fail "convoyd was not ready within 120 s"
}

# stop: SIGTERM; the daemon must end with status 0.
stop() {
  local status=0
  kill -TERM "$daemon"
  wait "$daemon" || status=$?
  daemon=
  [ $status -eq 0 ] || fail "convoyd ended with status $status"
}

# The process id of the front of this daemon, and of the one with PID. The daemon's own is that of its master.
front_of() { pgrep -P "$1" -x convoyd; }
front() { front_of "$daemon"; }

# The process ids of the workers of this daemon.
workers() { pgrep -P "$daemon" convoy-worker; }

# stand_still PID...: stops the processes, and returns when all their threads stand. kill returns before: on a busy machine
# a thread still takes an image then, and answers it.
stand_still() {
  # shellcheck disable=SC2317 # until_true calls it
  all_stand() {
    local pid
    for pid; do
      [ ! -d "/proc/$pid" ] || awk '{ sub(/.*\) /, ""); if ($1 !~ /^[TtZX]/) exit 1 }' "/proc/$pid/task/"*/stat || return 1
    done
  }
  kill -STOP "$@"
  until_true 20 all_stand "$@" || fail "process $* does not stop"
}

# gathered COMMAND...: runs it while the worker stands still until all 8 slots are in use, so that images travel together:
# the command has to send more than they leave out.
gathered() {
  local command
  # shellcheck disable=SC2317 # until_true calls it
  all_in_use() { [ "$(sample convoyd_slots_in_use)" = 8 ]; }
  stand_still "$(workers)"
  "$@" &
  command=$!
  until_true 10 all_in_use || fail "$*: it does not fill the slots"
  kill -CONT "$(workers)"
  wait $command || fail "$*: no answer"
}

# json FILE EXPRESSION: evaluates a Python expression over the document d. The parser of Python's module json, without the module:
# 11 ms of processor time instead of 25. What it does not take, the module refuses, and says why.
json() {
  "$python" -S -c 'import sys
text = open(sys.argv[1], encoding="utf-8").read().strip(" \t\r\n")
try:
    from _json import make_scanner
    class context: strict, object_hook, object_pairs_hook, parse_float, parse_int, parse_constant, memo = True, None, None, float, int, float, {}
    d, end = make_scanner(context)(text, 0)
except (ImportError, StopIteration, SystemError, ValueError):
    end = -1
if end != len(text):
    import json
    d = json.loads(text)
print(eval("(" + sys.argv[2] + ")"))' "$1" "$2"
}

# expect STATUS CURL-ARGUMENTS...: the answer's body lands in $work/body, its headers in $work/headers. An error
# must be JSON with a sentence.
expect() {
  local wanted=$1 got
  shift
  got=$(curl -sS --max-time 300 -o "$work/body" -D "$work/headers" -w '%{http_code}' "$@") || fail "curl $*: no answer"
  [ "$got" = "$wanted" ] || fail "curl $*: status $got, expected $wanted: $(cat "$work/body")"
  if [ "$wanted" -ge 400 ]; then
    [ "$(json "$work/body" 'len(d["error"]) > 10')" = True ] || fail "curl $*: no error sentence: $(cat "$work/body")"
  fi
}

# configure KEY=JSON...: writes $work/config.json, e.g. configure 'http={"max_body_bytes": 1000}'. Like the command
# line, what is not given has the built-in value, but for the time until a worker is taken for hanging: tests let workers stand
# still, on machines that have much else to do.
configure() { write_configuration "$@"; }
write_configuration() {
  local pair comma='' patience='"hang_timeout_ms": 20000'
  [[ " $* " == *' worker='* ]] || set -- "$@" 'worker={}'
  {
    printf '{'
    for pair in "$@"; do
      case $pair in
        worker=*hang_timeout_ms*) ;;
        worker={}) pair="worker={$patience}" ;;
        worker=*) pair="worker={$patience, ${pair#*\{}" ;;
      esac
      printf '%s"%s": %s' "$comma" "${pair%%=*}" "${pair#*=}"
      comma=', '
    done
    printf '}\n'
  } >"$work/config.json"
}

# sample NAME: the value of one sample on /metrics, named with its labels, or nothing.
sample() { answer_to /metrics | awk -v name="$1 " 'index($0, name) == 1 { print $NF }'; }

# needs_pillow: skips the test where Python cannot make images; the one in PATH may have Pillow where the system's own lacks it.
needs_pillow() {
  "$python" -c 'import PIL' 2>/dev/null || python=$(command -v python3)
  "$python" -c 'import PIL' 2>/dev/null || skip "there is no Pillow (python3-pil) to make images with"
}

# needs_cuda: $build is a tree whose CUDA backend has a GPU, or the emulation of one (tests/emulation); $emulated is not
# empty for the latter.
needs_cuda() {
  emulated=$build/tests/emulation/convoy-backend-cuda-emulated.so
  if "$build/bin/convoy-worker" --check models/cifar10-convnet/1/model.onnx --backend cuda >"$work/check" 2>&1; then
    echo "On the GPU."
    emulated=
    return
  fi
  [ -e "$emulated" ] || skip "there is neither a GPU nor an emulated one"
  echo "On an emulated GPU."
  mkdir -p "$work/$build/bin"
  cp "$build/bin/convoyd" "$build/bin/convoy-worker" "$build/bin/convoy-faults.so" "$work/$build/bin/"
  cp "$emulated" "$work/$build/bin/convoy-backend-cuda.so"
  build=$work/$build
}

# descriptors: how many the front has open.
descriptors() { find "/proc/$(front)/fd" -mindepth 1 | wc -l; }
