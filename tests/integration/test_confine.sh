#!/usr/bin/env bash
# What a model that took its worker over could do: a stand-in for one tries the ways out of the process (tests/faults/escape.c)
# while it is loaded. Another model is served beside it, by threads that exist before the confinement and by later ones.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

mkdir "$work/models"
cp -r models/cifar10-convnet "$work/models/good"
cp -r models/cifar10-convnet "$work/models/hostile"
export CONVOY_TEST_FAULT=escape:hostile
reason() { curl -fsS "$url/v2/models" >"$work/models.json" && json "$work/models.json" "[m.get('reason').split(': ', 1)[1] for m in d['models'] if m['name'] == 'hostile'][0]"; }

echo "Confined, as it is unless it is switched off: no way out."
start --backend cpu --models "$work/models"
[ "$(reason)" = "ways out: none" ] || fail "open are $(reason)"
grep -q 'text="confined: ' "$work/log" || fail "no line says what holds"
worker=$(workers)
for thread in "/proc/$worker/task/"*/status; do
  grep -q '^Seccomp:.2$' "$thread" || fail "a thread of the worker is not confined: $thread"
  grep -q '^NoNewPrivs:.1$' "$thread" || fail "a thread of the worker may gain privileges: $thread"
  [ $((0x$(awk '/^CapEff/ { print $2 }' "$thread") & ~0x4004)) = 0 ] || fail "a thread has capabilities: $(grep Cap "$thread")"
done
[ "$(find "/proc/$worker/task" -mindepth 1 -maxdepth 1 | wc -l)" -ge 2 ] || fail "the worker has one thread alone"
expect 200 --data-binary @models/samples/ship.jpg "$url/classify?model=good"
[ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = ship ] || fail "$(cat "$work/body")"
stop

echo "Not confined: the same stand-in finds ways, so it would have found them above."
configure 'worker={"sandbox": false}'
start --backend cpu --models "$work/models" --config "$work/config.json"
open=$(reason)
echo "$open"
for way in socket fork pidfd kill; do [[ $open == *"$way"* ]] || fail "the stand-in does not find $way: $open"; done
if grep -q 'text="confined' "$work/log"; then fail "it says that it is confined"; fi
stop
echo "passed"
