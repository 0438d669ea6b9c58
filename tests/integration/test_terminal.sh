#!/usr/bin/env bash
# The client on a real terminal, in tmux: progress that fits the window, and convoy top's screen: keys, sizes, signals,
# and a terminal that is afterwards as it was before.
# sanitize: all
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

command -v tmux >/dev/null || skip "there is no tmux to have a terminal in"
convoy=$PWD/$build/bin/convoy
unset CONVOY_URL NO_COLOR TMUX
mux() { tmux -S "$work/tmux" -f /dev/null "$@"; }
trap 'status=$?; mux kill-server 2>/dev/null || true; finish "$status"' EXIT
keys() { mux send-keys "$@"; }
see() { mux capture-pane -p -t main; }
sees() { see | grep -E -e "$1" >/dev/null; }
# shows PATTERN / hides PATTERN: waits until a line of the window is like that, or none is.
shows() { until_true 20 sees "$1" || fail "'$1' does not show: $(see)"; }
lacks() { ! sees "$1"; }
hides() { until_true 20 lacks "$1" || fail "'$1' still shows: $(see)"; }
# The terminal's settings, as the shell's children find them, and what the screen is; waits for the shell.
mark=0
settings() {
  mark=$((mark + 1))
  keys "stty -a >$work/stty.$mark; echo marked-\$((100 + $mark))" Enter
  shows "^marked-$((100 + mark))\$"
  sed 's/rows [0-9]*; columns [0-9]*;//' "$work/stty.$mark"
  mux display-message -p -t main '#{alternate_on} #{cursor_flag}'
}
# screen_is ALTERNATE CURSOR: 1 or 0 each.
screen_is() { [ "$(mux display-message -p -t main '#{alternate_on} #{cursor_flag}')" = "$1 $2" ]; }
# restored STATUS: after the command's end the shell is there with the status, and all is as it was. What is typed
# before top has given the terminal back is top's.
restored() {
  until_true 20 screen_is 0 1 || fail "the alternate screen stays: $(see)"
  keys "echo status-\$?-" Enter
  shows "^status-$1-\$"
  settings >"$work/after"
  diff "$work/before" "$work/after" || fail "the terminal is not as it was: $(see)"
}

# The window and its shell.
mux new-session -d -s main -x 100 -y 30 "env PS1='ready> ' LC_ALL=C.UTF-8 TERM=screen bash --norc --noprofile"
shows '^ready>'
settings >"$work/before"
configure 'default_model="cifar10-convnet"'
start --backend cpu --config "$work/config.json"
keys "convoy=$convoy; export CONVOY_URL=$url; clear" Enter

echo "top: its screen, and q."
# What the shell showed before must come back.
keys "echo before-\$((40 + 2))" Enter
shows '^before-42$'
keys "\$convoy top --interval 0.2" Enter
shows "^convoyd .* at $url .*q quits"
shows '^requests [0-9.]+/s '
shows '^cifar10-convnet  *1 of 1 '
shows '^  output '
screen_is 1 0 || fail "not the alternate screen without cursor"
mux capture-pane -p -e -t main | grep "$(printf '\033')\[1m" >/dev/null || fail "no colours on a terminal"
hides '^before-42$'

keys q
restored 0
shows '^before-42$'

keys clear Enter "NO_COLOR=1 \$convoy top --interval 0.2" Enter
shows '^  output '
mux capture-pane -p -e -t main | grep "$(printf '\033')" >/dev/null && fail "colours in spite of NO_COLOR: $(mux capture-pane -p -e -t main)"
keys q
restored 0
keys clear Enter

echo "top: windows of other sizes, drawn again at once."
keys "\$convoy top --interval 3600" Enter
shows '^  output '
mux resize-window -t main -x 40 -y 8
shows 'more lines: the window is'
# Before it is drawn again the window holds what is left of the larger one.
fits() { see >"$work/seen"; [ "$(grep -c '^convoyd' "$work/seen")" = 1 ] && sed -n 1p "$work/seen" | grep '^convoyd' >/dev/null; }
until_true 20 fits || fail "lines that wrapped or scrolled: $(see)"
mux resize-window -t main -x 160 -y 50
shows ' not 200/s  *retried'
hides 'more lines'
mux resize-window -t main -x 10 -y 1
shows '^\([0-9]+ more'
mux resize-window -t main -x 100 -y 30
shows '^  output '
keys q
restored 0

echo "top: Ctrl-C, SIGTERM, a crash, and Ctrl-Z."
keys clear Enter "\$convoy top" Enter
shows 'q quits'
keys C-c
restored 0
# end_by SIGNAL STATUS
end_by() {
  keys clear Enter "\$convoy top & fg" Enter
  shows 'q quits'
  kill "-$1" "$(pgrep -P "$(mux display-message -p -t main '#{pane_pid}')" -x convoy)"
  restored "$2"
}
end_by TERM 143
end_by HUP 129
end_by SEGV 139
keys clear Enter "\$convoy top --interval 0.2" Enter
shows 'q quits'
keys C-z
shows 'Stopped'
screen_is 0 1 || fail "the shell has no terminal"
keys fg Enter
shows 'q quits'
screen_is 1 0 || fail "not taken again"
keys q
restored 0
keys clear Enter "\$convoy top --interval 0.1 --count 3; echo ended-\$?-" Enter
shows '^ended-0-$'
restored 0

echo "top: a server that stops answering, q meanwhile, and one that goes away."
keys clear Enter "\$convoy top --interval 0.2" Enter
shows 'q quits'
stand_still "$(front)"
shows '^no answer for [0-9]+ s, trying again: '
keys q
restored 0
kill -CONT "$(front)"
keys clear Enter "\$convoy top --interval 0.2" Enter
shows '^cifar10-convnet '
address=127.0.0.1:$port
stop
shows '^no answer for [0-9]+ s, trying again: no server answers'
start --backend cpu --config "$work/config.json" --listen "$address"
shows '^cifar10-convnet '
keys q
restored 0
keys clear Enter "TERM=dumb \$convoy top --count 1 --interval 0.1; echo ended-\$?-" Enter
shows '^  output '
shows '^ended-0-$'
restored 0

echo "Progress."
keys clear Enter "\$convoy bench --seconds 3 models/samples" Enter
shows 'bench: second .* [12]/3$'
shows '^  latency '
hides 'bench: second'
restored 0
keys clear Enter "\$convoy bench --sweep --connections 1,2 --seconds 3 models/samples; echo ended-\$?-" Enter
shows 'bench: 1 of 2, 1 connection, warm-up'
shows 'bench: 1 of 2, 1 connection, second .* [12]/3$'
shows '^1 connection  *[0-9.]* '
shows 'bench: 2 of 2, 2 connections, second .* [12]/3$'
shows '^ended-0-$'
hides 'bench: '
keys clear Enter "\$convoy bench --sweep --connections 1,2 --seconds 2 models/samples" Enter
shows 'bench: 2 of 2, 2 connections, '
keys C-c
shows 'convoy bench: interrupted; 1 of 2 loads were measured$'
restored 130
keys clear Enter "\$convoy bench --seconds 60 models/samples" Enter
shows 'bench: second .* [0-9]+/60$'
keys C-c
restored 130
# A server that answers six images and then no more until the file go is there.
cat >"$work/slow.py" <<'PYTHON'
import http.server, json, os, sys, time
go, posts = sys.argv[1], 0
class Slow(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        global posts
        posts += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        while posts > 6 and not os.path.exists(go):
            time.sleep(0.01)
        predictions = [{"label": "ship", "index": 0, "probability": 1}, {"label": "truck", "index": 1, "probability": 0}]
        text = json.dumps({"model": "m", "version": "1", "results": [{"predictions": predictions}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        try:
            self.wfile.write(text)
        except OSError:
            pass
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
print(server.server_port, flush=True)
server.serve_forever()
PYTHON
stop
"$python" "$work/slow.py" "$work/go" >"$work/port" &
daemon=$!
until_true 20 grep -q . "$work/port" || fail "the slow server did not start"
folder=$work/a-folder-whose-name-is-so-long-that-it-fills-a-window-of-sixty-columns
mkdir -p "$folder/ship"
for i in {1..9}; do cp models/samples/ship.jpg "$folder/ship/$i.jpg"; done
keys "export CONVOY_URL=http://127.0.0.1:$(cat "$work/port")" Enter clear Enter
mux resize-window -t main -x 50 -y 20
keys "\$convoy eval --connections 1 --batch 1 '$folder' 2>/dev/tty" Enter
shows '█+ * 6/9$'
# One line, however often it was drawn: above it stands what was typed.
[ "$(see | grep -c '█')" = 1 ] || fail "progress that wraps: $(see)"
keys C-c
restored 130
keys clear Enter "\$convoy eval --connections 1 --batch 1 '$folder'" Enter
touch "$work/go"
shows '^accuracy 100.00 %'
hides '/9$'
restored 0
