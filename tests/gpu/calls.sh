#!/usr/bin/env bash
# What some 100,000 requests cost in calls of the CUDA runtime, as the worker counts them and as CUPTI sees them:
# tests/gpu/calls.sh PACK [SECONDS]. Fails where the two differ by more than what is polled, or where a request
# makes any call but those that DESIGN.md names.
set -euo pipefail
cd "$(dirname "$0")/../.."
pack=$(cd "$1" && pwd)
seconds=${2:-10}
work=$(mktemp -d)
daemon=
# shellcheck disable=SC2154
trap 'status=$?; [ -z "$daemon" ] || kill -KILL "$daemon"; rm -rf "$work"; exit $status' EXIT
tests/gpu/count_calls.sh "$work/count.so"
# Checks of an idle device decode a JPEG file, too, and the JPEG decoder is prepared after the models. The worker writes what CUPTI
# sees into the folder of this script's user.
printf '{"tune": "off", "images": {"decoder": "cpu"}, "worker": {"canary_ms": 0, "user": "root", "confine_files": "off"}}' >"$work/config.json"
export CUDA_INJECTION64_PATH=$work/count.so CONVOY_CALLS_FILE=$work/calls
"$pack/bin/convoyd" --config "$work/config.json" --backend cuda --models models --listen 127.0.0.1:0 2>"$work/log" &
daemon=$!
until url=http://127.0.0.1:$(sed -n 's/.*msg="convoyd listens".* port=\([0-9]*\).*/\1/p' "$work/log") &&
  curl -fs -o /dev/null "$url/v2/health/ready"; do
  kill -0 $daemon || { cat "$work/log" >&2; exit 1; }
  sleep 0.05
done
worker=$(pgrep -P $daemon convoy-worker)
own() { curl -fsS "$url/metrics" | sed -n 's/^convoyd_cuda_calls_total{.*call="\([A-Za-z]*\)".*} \(.*\)/\1 \2/p' | sort; }
seen() { awk '{ sub(/_v[0-9]+$/, "", $1); sub(/_ptsz$/, "", $1); print $1, $2 }' "$work/calls.$worker" | sort; }
sleep 0.5 # both are written ten times a second
own >"$work/own.before"
seen >"$work/seen.before"
"$pack/bin/convoy" bench --url "$url" --seconds "$seconds" --connections 64 --model cifar10-convnet \
  --json models/samples >"$work/bench"
sleep 0.5
own >"$work/own.after"
seen >"$work/seen.after"
for who in own seen; do
  join -a 2 -e 0 -o 0,1.2,2.2 "$work/$who.before" "$work/$who.after" | awk '$3 > $2 { print $1, $3 - $2 }' >"$work/$who"
done
requests=$(sed -n 's/.*"answered":[^0-9]*\([0-9]*\).*/\1/p' "$work/bench")
echo "calls for $requests requests: the worker's own count, CUPTI's"
join -a 1 -a 2 -e 0 -o 0,1.2,2.2 "$work/own" "$work/seen"
join -a 1 -a 2 -e 0 -o 0,1.2,2.2 "$work/own" "$work/seen" | awk '
  $1 !~ /^cuda(MemcpyAsync|GraphLaunch|EventRecord|EventQuery|EventElapsedTime|GetLastError)$/ { print "not allowed: " $0; bad = 1 }
  $1 !~ /Query|GetLastError/ && $2 != $3 { print "differs: " $0; bad = 1 }
  END { exit bad }'
