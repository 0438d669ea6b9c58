#!/usr/bin/env bash
# The shared test images through HTTP, one by one and many in a form: as many right as the model card states.
# shellcheck disable=SC2119 # start and launch take options of convoyd, which are not this script's
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

archive=$data/cifar10-jpg/test.tar.gz
slack=5 # images that may fall the other way where two classes are level in the last bits

[ -f "$archive" ] || skip "the shared test images are not there: $archive"
card=$(sed -n 's/.*(\([0-9],[0-9]*\) of 5,000.*/\1/p' models/cifar10-convnet/README.md | tr -d ,)
[ -n "$card" ] || fail "the model card of cifar10-convnet does not state its accuracy"
start

check() { # name, arguments of classify_archive.py
  local name=$1 right
  shift
  python3 tests/tools/classify_archive.py "$url" "$archive" --out "$work/$name" "$@" >"$work/$name.json" ||
    fail "$name: $(cat "$work/$name.json")"
  cat "$work/$name.json"
  [ "$(json "$work/$name.json" 'd["images"]')" = 5000 ] || fail "$name: not 5,000 images"
  right=$(json "$work/$name.json" 'd["right"]')
  [ $((right > card ? right - card : card - right)) -le $slack ] ||
    fail "$name: $right of 5,000 right, the model card says $card"
}

check single
check form --batch 100
differ=$(diff "$work/single" "$work/form" | grep -c '^<' || true)
[ "$differ" -le $slack ] || fail "alone and in a form $differ images are classified differently"
stop
