#!/usr/bin/env bash
# What keys and limits cost: requests a second and processor time each, of two daemons with the null backend, one with keys and
# limits that are never reached, in turns; and the processor time of a request that is refused for its key, from which follows what a
# thousand of them a second take of the machine; then the rate of others, with a key, while such a thousand comes and while none does.
#   tests/bench/keys.sh [ROUNDS [SECONDS]]
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-9}
seconds=${2:-2}
connections=64

needs wrk wrk
small_jpeg
(umask 077; : >"$work/keyfile")
for i in {1..100}; do "$build/bin/convoy" key "client-$i" infer; done >>"$work/keyfile" 2>"$work/made"
key=$(tail -n 1 "$work/made")

declare -A urls daemons workers
serve_with() { # NAME CONFIGURATION
  printf '%s' "$2" >"$work/config.json"
  serve null --models "$measured" --config "$work/config.json"
  urls[$1]=$url
  daemons[$1]=$daemon
  workers[$1]=$(pgrep -P "$daemon" convoy-worker)
}
serve_with open '{}'
serve_with keys "{\"auth\": {\"keys\": \"$work/keyfile\", \"anonymous\": [\"metrics\"]},
  \"limits\": {\"requests_per_second\": 1000000, \"images_per_second\": 1000000, \"concurrent\": 10000, \"by\": \"key\"}}"
serve_with wrong "{\"auth\": {\"keys\": \"$work/keyfile\", \"anonymous\": [\"metrics\"]}}"

for ((i = 0; i < rounds; i++)); do
  for name in open keys wrong; do
    before=$(ticks "${daemons[$name]}" "${workers[$name]}")
    if [ $name = wrong ]; then
      result=$(wrk -t 1 -c $connections -d "${seconds}s" -H "Authorization: Bearer ${key}0" "${urls[wrong]}/v2/models" |
        awk '/^Requests\/sec/ { print int($2), 0, 0, 0 }')
    else
      result=$(KEY=$key drive "${urls[$name]}/classify?top=1" $connections "$seconds")
    fi
    echo "$result $(awk -v t="$(($(ticks "${daemons[$name]}" "${workers[$name]}") - before))" -v n="${result%% *}" -v s="$seconds" \
      'BEGIN { printf "%.2f", t * 10000 / (n * s) }')" >>"$work/$name"
  done
done
printf '%d connections, a JPEG of %d bytes, %d rounds of %d s\n' $connections "$(stat -c %s "$IMAGE")" "$rounds" "$seconds"
for name in open keys; do
  printf '%-6s %7d requests/s, %s us of processor time each, ratio to open %s\n' $name "$(median 1 <"$work/$name")" \
    "$(median 5 <"$work/$name")" "$(ratios "$work/$name" "$work/open")"
done
wrong=$(median 5 <"$work/wrong")
awk -v us="$wrong" -v cores="$(nproc)" 'BEGIN { printf "a wrong key: %s us of processor time; 1,000 a second: %.2f %% of %d cores\n", us, us * 1000 / 10000 / cores, cores }'
# Alternately first: what drifts on the machine meets both alike.
rate=1000
guessed() {
  "$python" tests/bench/guesser.py "${urls[wrong]}" $rate "$work/guesses.one" >"$work/guesser.out" &
  local guesser=$!
  pids+=("$guesser")
  until [ -s "$work/guesser.out" ]; do
    kill -0 "$guesser" 2>/dev/null || die "the guesser ended"
    sleep 0.01
  done
  KEY=$key drive "${urls[wrong]}/classify?top=1" $connections "$seconds" >>"$work/guessed"
  kill -TERM "$guesser"
  wait "$guesser" || die "the guesser failed"
  unset 'pids[-1]'
  rm "$work/guesser.out"
  cat "$work/guesses.one" >>"$work/guesses"
}
left_alone() { KEY=$key drive "${urls[wrong]}/classify?top=1" $connections "$seconds" >>"$work/left_alone"; }
for ((i = 0; i < rounds; i++)); do
  if ((i % 2)); then
    guessed
    left_alone
  else
    left_alone
    guessed
  fi
done
printf 'others while %d wrong keys a second come (%d did): %d requests/s, without %d, ratio %s; the guesser itself takes %s %% of a core\n' $rate "$(median 1 <"$work/guesses")" \
  "$(median 1 <"$work/guessed")" "$(median 1 <"$work/left_alone")" "$(ratios "$work/guessed" "$work/left_alone")" "$(median 4 <"$work/guesses")"
awk '$3 > 0 { die = 1 } END { exit die }' "$work/guesses" || die "a wrong key got another answer than 401"
awk '{ bad += $4 } END { print "errors: " bad + 0 }' "$work"/{open,keys,guessed,left_alone}
