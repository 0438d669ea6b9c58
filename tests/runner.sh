# shellcheck shell=bash
# The runner of test.sh: steps wait in a queue, several run at a time, and the result of each is printed as it ends, with
# the time that passed and the time that its processes computed. Needs Bash 5.1 or newer. CONVOY_TEST_TIMES names a file
# that gets a line "SECONDS CPU-SECONDS NAME" for each step.
#
#   step KIND NAME COMMAND...    queues a step; exit status 77 means that it cannot run here, its last line says why
#   unit KIND NAME PROGRAM [OPTION...]   queues a Criterion program, each of whose tests counts
#   build KIND NAME COMMAND...   queues a build, which is not counted; when it is done, the function queue_after_NAME
#                                queues what needs it; when it fails, everything ends
#   run_steps                    runs what is queued and what that queues
#   summary                      the counts; status 0 only if there were steps and none failed
#
# A step's KIND says what it does, so that all cores are busy and no measurement is disturbed:
#   works    computes. One for each core, at a low priority, so that it hardly slows down steps of the other kinds.
#   waits    waits most of its time: for timers, processes, answers. $beside of them run at a time.
#   timed    measures times of answers or speed: no other step of the kind waits runs beside it, but those that work do.
#   alone    measures what any other step would change: no other step runs beside it.
#   last     works, too, and starts when no step of the kind waits is left: beside those that are timed, of which one runs at a
#            time and leaves a core.
# The first step in the queue that may start is started; so steps of the kind alone start late.
cores=$(nproc)
beside=${CONVOY_TEST_BESIDE:-3}
passed=0 failed=0 skipped=0
failures=() skips=()
# Of each step, by its number.
kinds=() names=() commands=() reports=() begun=()
computed_ms=0          # by all steps
waiting=()             # numbers
declare -A running=()  # the number of each process that runs
# How many steps of a kind run, and how many have not ended.
declare -A count=([works]=0 [waits]=0 [timed]=0 [alone]=0 [last]=0)
declare -A left=([works]=0 [waits]=0 [timed]=0 [alone]=0 [last]=0)
results=$(mktemp -d)
chmod 711 "$results"
mkdir -m 1777 "$results/reports" # of processes of other users, too

wanted() { [[ -z $pattern || $1 == *"$pattern"* ]]; }

# queue REPORT KIND NAME COMMAND...: REPORT is the function that tells of its end.
queue() {
  local number=${#names[@]}
  reports+=("$1") kinds+=("$2") names+=("$3")
  left[$2]=$((left[$2] + 1))
  shift 3
  commands+=("$(printf '%q ' "$@")")
  waiting+=("$number")
}

step() { if wanted "$2"; then queue report_step "$@"; fi; }
build() { queue report_build "$1" "$2" "${@:3}"; }
unit() { if wanted "$2"; then queue report_unit "$1" "$2" criterion ${#names[@]} "${@:3}"; fi; }

# criterion NUMBER PROGRAM [OPTION...]: runs it. A sanitizer report fails it too, because a leak does not change its exit status.
criterion() {
  local status=0
  ASAN_OPTIONS=log_path=$results/reports/$1.sanitizer UBSAN_OPTIONS=print_stacktrace=1:log_path=$results/reports/$1.sanitizer \
    "${@:2}" --tap="$results/$1.tap" -j1 || status=$?
  if grep -hsv 'Unable to get registers from thread' "$results/reports/$1".sanitizer.*; then status=1; fi # a remark, not an error
  return $status
}

note_passed() {
  passed=$((passed + $1))
  echo "passed  $2"
}
note_skipped() { # name, why, [time]
  skipped=$((skipped + 1))
  skips+=("$1: $2")
  echo "skipped $1${3:+ ($3)}: $2"
}
note_failed() { # name, time, log
  failed=$((failed + 1))
  failures+=("$1: $(tail -n 1 "$3" | cut -c 1-300)") # of a long log some show the end alone
  echo "FAILED  $1 ($2)"
  sed 's/^/    /' "$3"
}

# cpu_ms FILE: the milliseconds that the output of times() in FILE adds up to.
cpu_ms() { awk '{ for (i = 1; i <= NF; i++) { split($i, t, "[ms]"); sum += 60 * t[1] + t[2] } } END { printf "%.0f\n", 1000 * sum }' "$1"; }

# report_... NUMBER STATUS TIME: prints the result of a step that ended.
report_step() {
  local name=${names[$1]} log=$results/$1.log
  case $2 in
    0) note_passed 1 "$name ($3)" ;;
    77) note_skipped "$name" "$(tail -n 1 "$log")" "$3" ;;
    *) note_failed "$name" "$3" "$log" ;;
  esac
}

report_unit() {
  local name=${names[$1]} tap=$results/$1.tap ok bad skip line
  touch "$tap" # it may have died before
  # What --filter leaves out is none of this step's tests.
  [[ ${commands[$1]} != *' --filter '* ]] || sed -i '/# SKIP test was skipped$/d' "$tap"
  skip=$(grep -ci '^ok.*# *skip' "$tap")
  ok=$(($(grep -c '^ok' "$tap") - skip))
  bad=$(grep -c '^not ok' "$tap")
  while read -r line; do
    note_skipped "$name" "$line"
  done < <(grep -i '^ok.*# *skip' "$tap" | sed 's/^ok - //')
  if [ "$2" -ne 0 ] || [ "$bad" -gt 0 ] || [ $((ok + skip)) -eq 0 ]; then
    passed=$((passed + ok))
    grep '^not ok' "$tap"
    note_failed "$name" "$3" "$results/$1.log"
  else
    note_passed "$ok" "$name ($ok tests, $3)"
  fi
}

report_build() {
  local name=${names[$1]}
  if [ "$2" -ne 0 ]; then
    cat "$results/$1.log"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
  fi
  echo "built   $name ($3)"
  cat "$results/$1.log"
  "queue_after_$name"
}

# may_start KIND
may_start() {
  [ "${count[alone]}" -eq 0 ] || return 1
  case $1 in
    works) [ $((count[works] + count[last])) -lt "$cores" ] ;;
    waits) [ "${count[waits]}" -lt "$beside" ] && [ "${count[timed]}" -eq 0 ] ;;
    timed) [ $((count[waits] + count[timed])) -eq 0 ] ;;
    alone) [ ${#running[@]} -eq 0 ] ;;
    last) [ "${left[waits]}" -eq 0 ] && may_start works ;;
  esac
}

# start NUMBER: in a process group of its own, so that Ctrl-C comes here alone, and is not ignored in it, as it would
# be in the background of a shell without job control.
start() {
  local kind=${kinds[$1]}
  begun[$1]=$SECONDS
  set -m
  (
    [[ $kind != works && $kind != last ]] || renice -n 10 -p "$BASHPID" >/dev/null
    status=0
    eval "${commands[$1]}" || status=$?
    times >"$results/$1.times"
    exit "$status"
  ) </dev/null >"$results/$1.log" 2>&1 &
  set +m
  running[$!]=$1
  count[$kind]=$((count[$kind] + 1))
}

run_steps() {
  local number status process kind later cpu
  while [ $((${#waiting[@]} + ${#running[@]})) -gt 0 ]; do
    later=()
    for number in "${waiting[@]}"; do
      if may_start "${kinds[$number]}"; then start "$number"; else later+=("$number"); fi
    done
    waiting=("${later[@]}")
    status=0
    wait -n -p process || status=$?
    number=${running[$process]}
    kind=${kinds[$number]}
    unset "running[$process]"
    count[$kind]=$((count[$kind] - 1))
    left[$kind]=$((left[$kind] - 1))
    cpu=0
    [ ! -s "$results/$number.times" ] || cpu=$(cpu_ms "$results/$number.times")
    computed_ms=$((computed_ms + cpu))
    [ -z "${CONVOY_TEST_TIMES:-}" ] ||
      echo "$((SECONDS - begun[number])) $((cpu / 1000)).$((cpu / 100 % 10)) ${names[$number]}" >>"$CONVOY_TEST_TIMES"
    "${reports[$number]}" "$number" $status "$((SECONDS - begun[number])) s, $(((cpu + 500) / 1000)) s of CPU"
  done
}

# descendants PROCESS: its children, theirs, and so on.
descendants() {
  local child
  for child in $(pgrep -P "$1"); do
    echo "$child"
    descendants "$child"
  done
}

# end_steps: ends what runs, also what has left its process group. SIGTERM first: a test has daemons to end, and files.
end_steps() {
  local status=$? processes end
  trap '' INT TERM
  if [ ${#running[@]} -gt 0 ]; then
    processes=$(for process in "${!running[@]}"; do echo "$process"; descendants "$process"; done)
    # shellcheck disable=SC2086 # words
    kill -TERM $processes 2>/dev/null
    # shellcheck disable=SC2086
    kill -CONT $processes 2>/dev/null
    end=$((SECONDS + 5))
    # shellcheck disable=SC2086
    while [ $SECONDS -lt $end ] && kill -0 $processes 2>/dev/null; do sleep 0.1; done
    # shellcheck disable=SC2086
    kill -KILL $processes 2>/dev/null
    wait
  fi 2>/dev/null
  rm -rf "$results"
  exit $status
}
trap end_steps EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

summary() {
  echo
  [ ${#skips[@]} -eq 0 ] || printf 'skipped: %s\n' "${skips[@]}"
  [ ${#failures[@]} -eq 0 ] || printf 'failed: %s\n' "${failures[@]}"
  echo "in $((SECONDS / 60)) min $((SECONDS % 60)) s, with $((computed_ms / 60000)) min $((computed_ms / 1000 % 60)) s of CPU on $cores cores:"
  [ $((passed + failed + skipped)) -gt 0 ] || echo "no step's name contains '$pattern' at this level: try another, --quick or --all"
  echo "$passed passed, $failed failed, $skipped skipped"
  [ $failed -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
}
