#!/usr/bin/env bash
# docs/tutorial.md: the page's own lines, from a network that is trained to the load test, one after the other.
# Needs PyTorch and more, which are too large to install for a test: CONVOY_TORCH_PYTHON names a Python that has them.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

trainer=${CONVOY_TORCH_PYTHON:-build/venv-survey/bin/python}
"$trainer" -c 'import torch, onnx, onnxscript, onnxruntime, PIL' 2>/dev/null ||
  skip "there is no PyTorch with onnx, onnxscript, onnxruntime (CONVOY_TORCH_PYTHON names a Python with them)"
for program in openssl prometheus curl; do
  command -v $program >/dev/null || skip "there is no $program"
done
export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore

# A clone's root with what the page names, in which folders can be made; and ports that are free.
mkdir -p "$work/clone/build/bin"
ln -s "$root"/{models,config,docs} "$work/clone/"
ln -s "$(realpath "$build")"/bin/* "$work/clone/build/bin/"
printf '#!/bin/sh\nexec %q "$@"\n' "$(realpath -s "$trainer")" >"$work/clone/build/bin/python3"
chmod +x "$work/clone/build/bin/python3"
read -r secure health watch <<<"$("$python" -c '
import socket
sockets = [socket.socket() for _ in range(3)]
for s in sockets: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in sockets))')"
sed -n 's/^    //p' docs/tutorial.md | sed "s/8443/$secure/g; s/8081/$health/g; s/9090/$watch/g" >"$work/lines"
[ "$(grep -c '^convoy ' "$work/lines")" -ge 7 ] || fail "the page has lost its commands: $(cat "$work/lines")"
# until loops of the page have no limit of their own: the whole has one. Job control, as a terminal has it.
cat >"$work/page" <<END
set -em
cd "$work/clone"
trap 'kill -KILL \$(jobs -p) 2>/dev/null' EXIT
$(cat "$work/lines")
trap - EXIT
END
began=$SECONDS
timeout 300 bash "$work/page" >"$work/said" 2>&1 || fail "after $((SECONDS - began)) s: $(tail -n 40 "$work/said"; tail -n 5 "$work/clone/tutorial/log")"

says() { grep -qE "$1" "$work/said" || fail "the page's commands do not say '$1': $(cat "$work/said")"; }
says '^model shapes version 1: ok'
says '"label":"circle"'
says '^ready$'
says 'shapes .*2 .*READY'
[ "$(sed -n 's/^ready$/x/p' "$work/said" | wc -l)" = 2 ] || fail "it was not ready twice: $(cat "$work/said")"
# A network that was trained, and pictures prepared as it saw them.
percent=$(sed -n 's/^accuracy *\([0-9]*\)\..*/\1/p' "$work/said" | head -n 1)
[ "${percent:-0}" -ge 90 ] || fail "accuracy ${percent:-unknown}: $(cat "$work/said")"
grep -q '<svg' "$work/clone/tutorial/report.html" || fail "no report"
says 'requests/s'
curl -s -o /dev/null "http://127.0.0.1:$health/v2" && fail "the page's last command leaves convoyd"
curl -s -o /dev/null "http://127.0.0.1:$watch/" && fail "the page's last command leaves Prometheus"
echo "  $((SECONDS - began)) s"
echo "passed"
