#!/usr/bin/env bash
# An installed tree serves from wherever it was moved to and is started.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=$PWD/models/samples/truck.jpg
cmake --install "$build" --prefix "$work/first" >"$work/install.log" || fail "$(tail "$work/install.log")"
mv "$work/first" "$work/second"
build=$work/second
cd /
"$build/bin/convoyd" --check-config >"$work/check" || fail "$(cat "$work/check")"
grep -q "^configuration $build/etc/convoyd/convoyd.json: ok" "$work/check" || fail "another file: $(cat "$work/check")"
grep -q '^model cifar10-convnet version 1: ok' "$work/check" || fail "no model: $(cat "$work/check")"
for module in cpu null; do
  missing=$(ldd "$build/lib/convoyd/convoy-backend-$module.so" | grep 'not found' || true)
  [ -z "$missing" ] || fail "$module: $missing"
done
start --backend cpu
expect 200 --data-binary "@$image" "$url/classify"
[ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = truck ] || fail "$(cat "$work/body")"
stop
