#!/usr/bin/env bash
# docs/recipes.md: the programs as they stand there, against convoyd, against a server that is full at first, and against one that wants
# a key; and Caddy in front. What is not installed is named and passed over.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=$PWD/models/samples/ship.jpg
page=$PWD/docs/recipes.md
# block LANGUAGE: the page's block of that language.
block() { awk -v fence="\`\`\`$1" '$0 == fence { on = 1; next } /^```/ { on = 0 } on' "$page"; }
ran=0
missing=()

"$build/bin/convoy" key recipes infer >"$work/keys" 2>"$work/key"
chmod 600 "$work/keys"
key=$(grep -oE '[A-Za-z0-9_-]{32,}' "$work/key" | head -n 1)
[ -n "$key" ] || fail "convoy key prints no key: $(cat "$work/key")"
configure 'models="models"' "auth={\"keys\": \"$work/keys\", \"anonymous\": []}" 'http={"trusted_proxies": ["127.0.0.1"]}' 'log={"access": "all"}'
start --config "$work/config.json"
# Full at first: 503 twice, then the answer of convoyd.
cat >"$work/full.py" <<'PYTHON'
import http.server, sys, urllib.request
class Full(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked = 0
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Full.asked += 1
        if Full.asked % 3:
            self.answer(503, b'{"error": "the queue is full"}')
        else:
            request = urllib.request.Request(sys.argv[1] + self.path, body, {"Authorization": self.headers["Authorization"]})
            self.answer(200, urllib.request.urlopen(request).read())
    def answer(self, status, body):
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "0" if Full.asked % 3 == 1 else "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Full)
print(server.server_address[1], flush=True)
server.serve_forever()
PYTHON
"$python" "$work/full.py" "$url" >"$work/full" &
proxy=$!
until_true 20 test -s "$work/full" || fail "the full server does not start"
full=http://127.0.0.1:$(cat "$work/full")

# recipe NAME COMMAND...: prints the best class; waits where it is told to; says what the server says.
recipe() {
  local name=$1
  shift
  ran=$((ran + 1))
  for server in "$url" "$full"; do
    CONVOY_KEY=$key CONVOY_URL=$server timeout 60 "$@" "$image" >"$work/said" 2>&1 || fail "$name at $server: $(cat "$work/said")"
    grep -qE '^ship 0\.89' "$work/said" || fail "$name at $server: $(cat "$work/said")"
  done
  if CONVOY_KEY=wrong CONVOY_URL=$url timeout 60 "$@" "$image" >"$work/said" 2>&1; then fail "$name succeeds without a key"; fi
  grep -q "key" "$work/said" || fail "$name does not say what the server says: $(cat "$work/said")"
  echo "  $name"
}

echo "Programs."
block python >"$work/classify.py"
recipe Python "$python" "$work/classify.py"
if command -v node >/dev/null && [ "$(node -p 'process.versions.node.split(".")[0] >= 18')" = true ]; then
  block javascript >"$work/classify.mjs"
  recipe Node node "$work/classify.mjs"
else
  missing+=("Node 18")
fi
if command -v go >/dev/null; then
  block go >"$work/classify.go"
  GOCACHE=$work/gocache GOFLAGS=-mod=mod GO111MODULE=off go build -o "$work/classify-go" "$work/classify.go" >"$work/said" 2>&1 || fail "$(cat "$work/said")"
  recipe Go "$work/classify-go"
else
  missing+=(Go)
fi
if command -v mcs >/dev/null && command -v mono >/dev/null; then
  block csharp >"$work/classify.cs"
  mcs -r:System.Net.Http -r:System.Web.Extensions -out:"$work/classify.exe" "$work/classify.cs" >"$work/said" 2>&1 || fail "$(cat "$work/said")"
  recipe 'C#' mono "$work/classify.exe"
else
  missing+=('C# (mono-mcs)')
fi

if command -v caddy >/dev/null; then
  echo "Caddy in front."
  front=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  # An authority of its own in place of Let's Encrypt, and this test's ports.
  {
    printf '{\n\tlocal_certs\n\tskip_install_trust\n\tauto_https disable_redirects\n\tadmin off\n\tstorage file_system %s/caddy\n}\n' "$work"
    block caddy | sed "s/^convoy.example/https:\/\/localhost:$front/; s/127.0.0.1:8080/127.0.0.1:$port/"
  } >"$work/Caddyfile"
  HOME=$work caddy run --config "$work/Caddyfile" --adapter caddyfile >"$work/caddy.log" 2>&1 &
  caddy=$!
  trap 'status=$?; kill -KILL $caddy 2>/dev/null || true; finish $status' EXIT
  ask() { curl -fsS --max-time 10 --cacert "$work/caddy/pki/authorities/local/root.crt" -H "Authorization: Bearer $key" "$@"; }
  until_true 30 ask "https://localhost:$front/v2/health/ready" || fail "Caddy does not answer: $(tail -n 5 "$work/caddy.log")"
  ask --data-binary @"$image" "https://localhost:$front/classify?model=cifar10-resnet&top=1" >"$work/body" || fail "$(cat "$work/caddy.log")"
  grep -q '"label":"ship"' "$work/body" || fail "$(cat "$work/body")"
  # What is too large is refused by Caddy or by convoyd, and nothing hangs.
  head -c 40000000 /dev/zero >"$work/large"
  status=$(curl -s --max-time 20 -o /dev/null -w '%{http_code}' --cacert "$work/caddy/pki/authorities/local/root.crt" -H "Authorization: Bearer $key" \
    -H 'Expect:' --data-binary @"$work/large" "https://localhost:$front/classify?model=cifar10-resnet" || true)
  [ "$status" = 413 ] || [ "$status" = 502 ] || fail "40 MB through Caddy: status $status"
  kill -TERM $caddy
  wait $caddy || true
  ran=$((ran + 1))
else
  missing+=(Caddy)
fi
stop
[ ${#missing[@]} = 0 ] || echo "not installed, and not tried: ${missing[*]}"
echo "$ran recipes, passed"
