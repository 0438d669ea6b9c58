#!/usr/bin/env bash
# Installs what is missing, builds, starts convoyd and classifies a shipped image.
#   ./run.sh          keeps serving until interrupted; further arguments go to convoyd
#   ./run.sh --once   stops after the first answer; exit status 0 only if it was right
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=build.sh
. ./build.sh

once=no
if [ "${1:-}" = --once ]; then
  once=yes
  shift
  [[ " $* " = *' --listen '* ]] || set -- --listen 127.0.0.1:0 "$@" # any free port: another daemon may be serving already
fi

convoy_install "${convoy_packages[@]}"
# What serves and asks, and neither tests nor benchmarks: half of the files that all has.
convoy_build user -- server/all engine/all client/all kernels/all

log=$(mktemp)
build/bin/convoyd "$@" 2> >(tee "$log" >&2) &
daemon=$!
trap 'kill -TERM $daemon 2>/dev/null; wait $daemon; rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The daemon says in its log where it listens; then it is asked whether it is ready.
port=
for _ in $(seq 600); do
  port=$(sed -n 's/.*msg="convoyd listens".* port=\([0-9]*\).*/\1/p; s/.*"msg":"convoyd listens".*"port":\([0-9]*\).*/\1/p' "$log" | head -n 1)
  [ -n "$port" ] && curl -fs -o /dev/null "http://127.0.0.1:$port/v2/health/ready" && break
  kill -0 $daemon 2>/dev/null || exit 1
  sleep 0.05
done

image=models/samples/ship.jpg
expected=ship
echo
echo "\$ curl --data-binary @$image http://127.0.0.1:$port/classify"
answer=$(curl -sS --data-binary "@$image" "http://127.0.0.1:$port/classify")
echo "$answer"
label=$(printf '%s' "$answer" | sed -n 's/.*"predictions":[[:space:]]*\[{"label":[[:space:]]*"\([^"]*\)".*/\1/p')
if [ "$label" != "$expected" ]; then
  echo "run.sh: expected '$expected', got '${label:-no label}'" >&2
  exit 1
fi
if [ $once = yes ]; then
  trap - INT TERM EXIT
  kill -TERM $daemon
  wait $daemon
  rm -f "$log"
  exit 0
fi
echo
echo "serving on http://127.0.0.1:$port until interrupted (Ctrl-C)"
wait $daemon
