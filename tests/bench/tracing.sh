#!/usr/bin/env bash
# What traces for a collector cost: requests a second, and processor time each, of four daemons with the null backend, in turns: without
# tracing.otlp_url, with a hundredth of the requests sampled, with all of them, and with all of them and a collector that hangs.
#   tests/bench/tracing.sh [ROUNDS [SECONDS]]
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-9}
seconds=${2:-2}
connections=64

needs wrk wrk
small_jpeg

# A collector that takes what comes, unread; one that accepts and answers nothing.
"$python" - "$work/port.takes" "$work/port.hangs" <<'PYTHON' &
import socket, sys, threading
takes, hangs = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
for listener, file in (takes, sys.argv[1]), (hangs, sys.argv[2]):
    open(file, "w").write(str(listener.getsockname()[1]))
def serve(connection):
    stream = connection.makefile("rb")
    while line := stream.readline():
        length = 0
        while line not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
            line = stream.readline()
        stream.read(length)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
while True:
    threading.Thread(target=serve, args=(takes.accept()[0],), daemon=True).start()
PYTHON
pids+=($!)
until [ -s "$work/port.takes" ] && [ -s "$work/port.hangs" ]; do sleep 0.02; done

declare -A urls daemons workers
serve_traced() { # NAME TRACING
  printf '{"tracing": %s}' "$2" >"$work/config.json"
  serve null --models "$measured" --config "$work/config.json"
  urls[$1]=$url
  daemons[$1]=$daemon
  workers[$1]=$(pgrep -P "$daemon" convoy-worker)
}
collector() { printf '{"otlp_url": "http://127.0.0.1:%s/v1/traces", "sample": %s}' "$(cat "$work/port.$1")" "$2"; }
serve_traced off '{}'
serve_traced hundredth "$(collector takes 0.01)"
serve_traced all "$(collector takes 1)"
serve_traced hangs "$(collector hangs 1)"

for ((i = 0; i < rounds; i++)); do
  for name in off hundredth all hangs; do
    before=$(ticks "${daemons[$name]}" "${workers[$name]}")
    result=$(drive "${urls[$name]}/classify?top=1" $connections "$seconds")
    echo "$result $(awk -v t="$(($(ticks "${daemons[$name]}" "${workers[$name]}") - before))" -v n="${result%% *}" -v s="$seconds" \
      'BEGIN { printf "%.1f", t * 10000 / (n * s) }')" >>"$work/$name"
  done
done
printf '%d connections, a JPEG of %d bytes, %d rounds of %d s\n' $connections "$(stat -c %s "$IMAGE")" "$rounds" "$seconds"
for name in off hundredth all hangs; do
  printf '%-9s %7d requests/s, %s us of processor time each, ratio to off %s\n' $name "$(median 1 <"$work/$name")" \
    "$(median 5 <"$work/$name")" "$(ratios "$work/$name" "$work/off")"
done
awk '{ bad += $4 } END { print "errors: " bad + 0 }' "$work"/{off,hundredth,all,hangs}
for name in hundredth all hangs; do curl -fsS "${urls[$name]}/metrics" | sed -n "s/^convoyd_traces_total/$name: &/p"; done
