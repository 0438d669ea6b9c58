#!/usr/bin/env bash
# What open pages cost: the processor time of a daemon whose page is open in many browsers, as each of them asks for /totals every two
# seconds on a connection of its own, as a share of one core; that of a daemon without them is taken off.
#   tests/bench/web.sh [PAGES [SECONDS]]
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
pages=${1:-100}
seconds=${2:-20}

serve null
worker=$(pgrep -P "$daemon" convoy-worker)
# spent COMMAND...: ticks of the daemon and its worker while it runs.
spent() {
  local before
  before=$(ticks "$daemon" "$worker")
  "$@"
  echo $(($(ticks "$daemon" "$worker") - before))
}
idle=$(spent sleep "$seconds")
busy=$(spent python3 - "$url" "$pages" "$seconds" <<'PYTHON'
import http.client, sys, time, urllib.parse

address, pages, seconds = urllib.parse.urlsplit(sys.argv[1]).netloc, int(sys.argv[2]), float(sys.argv[3])
EVERY_S = 2
connections = [http.client.HTTPConnection(address, timeout=10) for _ in range(pages)]
begin, asked = time.monotonic(), 0
# In turns, so that each is asked once in EVERY_S.
while (due := begin + asked * EVERY_S / pages) < begin + seconds:
    time.sleep(max(0, due - time.monotonic()))
    connection = connections[asked % pages]
    connection.request("GET", "/totals")
    answer = connection.getresponse()
    if answer.status != 200 or not answer.read():
        sys.exit(f"status {answer.status}")
    asked += 1
PYTHON
)
awk -v pages="$pages" -v seconds="$seconds" -v idle="$idle" -v busy="$busy" -v hz="$(getconf CLK_TCK)" 'BEGIN {
  printf "%d pages for %d s: %.2f %% of a core (with what the idle daemon takes, %.2f %%)\n", pages, seconds,
    (busy - idle) * 100 / hz / seconds, busy * 100 / hz / seconds }'
