#!/usr/bin/env bash
# bash completion: every command and option is offered, values and files too, models are those of the server; a
# server that is slow, away or hostile does no harm.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

unset CONVOY_URL
mkdir "$work/bin"
ln -s "$(cd "$build/bin" && pwd)"/convoy{,d} "$work/bin"
PATH=$work/bin:$PATH
# shellcheck source=client/completion/convoy
. client/completion/convoy
# shellcheck source=client/completion/convoyd
. client/completion/convoyd

# tab LINE: what pressing Tab at the end of LINE offers, a line each, split into words as bash does it.
tab() {
  local line=$1 function
  COMP_LINE=$line COMP_POINT=${#line}
  mapfile -t COMP_WORDS < <(grep -oE '[=:]+|[^ =:]+' <<<"$line")
  [[ $line != *' ' ]] || COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  function=$(complete -p "${COMP_WORDS[0]}" | sed 's/.*-F \([^ ]*\).*/\1/')
  COMPREPLY=()
  "$function" || true
  [ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}"
}
# offers LINE WORD...: just these.
offers() {
  local line=$1 got wanted
  shift
  got=$(tab "$line" | sort)
  wanted=$([ $# -eq 0 ] || printf '%s\n' "$@" | sort)
  [ "$got" = "$wanted" ] || fail "'$line' offers: $got; wanted: $wanted"
}

echo "Commands and options."
offers 'convoy ' bench classify eval health key load models stats top unload verify help --help --version --url
offers 'convoy b' bench
offers 'convoy --u' --url
offers 'convoy --url ' http://127.0.0.1:8080
offers 'convoy --url=' http://127.0.0.1:8080
offers 'convoy --url http://a:1/b ' bench classify eval health key load models stats top unload verify --url
offers 'convoy --url=http://a:1/b --url http://c t' top
offers 'convoy --url http://a:1 top --in' --interval --insecure
offers 'convoy models --cac' --cacert
offers 'convoy mo' models
offers 'convoyd --ba' --backend
offers 'convoyd --backend ' auto cpu cuda null
offers 'convoyd --tune=' on off force
offers 'convoyd --tune=f' force
commands=$(convoy --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
for command in $commands; do
  # shellcheck disable=SC2046 # words
  offers "convoy $command --" $(convoy "$command" --help | grep -oE '^  --[a-z-]+' | sort -u) --help
done
# shellcheck disable=SC2046 # words
offers 'convoyd --' $(convoyd --help | grep -oE '^  --[a-z-]+' | sort -u)
offers 'convoy eval --batch '
offers 'convoy top x'
offers 'convoy load --timeout '

echo "Files."
mkdir "$work/files" "$work/files/folder one"
touch "$work/files/a b.jpg" "$work/files/\$(touch owned).jpg"
cd "$work/files"
offers 'convoy classify a' 'a b.jpg'
offers 'convoy eval ' 'a b.jpg' 'folder one' "\$(touch owned).jpg"
offers 'convoy eval --labels f' 'folder one'
offers 'convoy bench --sweep --report f' 'folder one'
offers 'convoy bench --compare a' 'a b.jpg'
offers 'convoy verify --models f' 'folder one'
offers 'convoyd --models ' 'folder one'
offers 'convoyd --config a' 'a b.jpg'
[ ! -e owned ] || fail "a file's name was run"
cd "$root"

echo "Models."
mkdir -p "$work/models"/{first,fourth}/1 "$work/models/fourth/2"
for folder in "$work/models"/*/*; do cp models/cifar10-convnet/1/model.onnx "$folder"; done
configure 'model_control="explicit"' 'repository={"load_at_start": ["first", "fourth"]}'
mkdir -p "$work/models/fifth/1" # is there, and is not loaded
cp models/cifar10-convnet/1/model.onnx "$work/models/fifth/1"
start --backend null --models "$work/models" --config "$work/config.json"
offers "convoy classify --url $url --model " first fourth
offers "convoy eval --url=$url --json --model fo" fourth
offers "convoy --url $url eval --model fo" fourth
offers "convoy bench --url $url --model=fi" first
offers "convoy bench --url $url --model fourth --version " 1 2
offers "convoy bench --url $url --model first --version " 1
offers "convoy stats --url $url " first fourth
offers "convoy stats --batches --url=$url fo" fourth
offers "convoy stats --url $url first " # one is enough
offers "convoy stats --url $url --model first "
offers "convoy stats first --url $url --version " 1
offers "convoy stats --url $url fourth --version " 1 2
offers "convoy unload --url $url " first fourth
offers "convoy load --url $url " fifth first fourth
offers "convoy load --timeout 7 --url=$url fi" fifth first
offers "convoy load --url $url first " # one is enough
offers "convoy verify --tolerance 0.1 --models x --url=$url " first fourth
offers "convoy verify --url $url fourth --version " 1 2
export CONVOY_URL=$url
offers 'convoy classify --model ' first fourth
echo "A server that is stopped: an answer in time, and no word of it."
stand_still "$(front)"
before=$EPOCHREALTIME
offers 'convoy classify --model ' 2>"$work/err"
after=$EPOCHREALTIME
kill -CONT "$(front)"
[ ! -s "$work/err" ] || fail "$(cat "$work/err")"
[ "$("$python" -S -c "print($after - $before < 3)")" = True ] || fail "completion took from $before to $after"
stop
offers 'convoy classify --model ' 2>"$work/err"
[ ! -s "$work/err" ] || fail "$(cat "$work/err")"

echo "A hostile server."
cat >"$work/hostile.py" <<'PYTHON'
import http.server, json
names = ["$(touch owned)", "`touch owned`", "good", "a;touch owned", "x y", "\x1b[31m", "-rf", "*"]
models = [{"name": n, "version": "1", "state": "READY", "reason": ""} for n in names]
class Hostile(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer({"models": models})
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(models)
    def answer(self, document):
        text = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *arguments):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Hostile)
print(server.server_port, flush=True)
server.serve_forever()
PYTHON
"$python" "$work/hostile.py" >"$work/port" &
daemon=$!
until_true 20 grep -q . "$work/port" || fail "the hostile server did not start"
cd "$work/files"
CONVOY_URL=http://127.0.0.1:$(cat "$work/port")
offers 'convoy classify --model ' -rf good
offers 'convoy stats ' -rf good
offers 'convoy unload ' -rf good
offers 'convoy load ' -rf good
[ ! -e owned ] || fail "what a server sent was run"
