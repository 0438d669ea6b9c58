#!/usr/bin/env bash
# The network of the ConvNetJS CIFAR-10 demo, converted from its text weights, classifies as it should: the data's
# README states 76.5 % on the first 200 training images of each class (1,530 of 2,000). Of the shared test images
# numbered below 200 (every other one: 1,000) ONNX Runtime gets 721 right with the same file.
# shellcheck disable=SC2119 # start and launch take options of convoyd, which are not this script's
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

weights=$data/convnetjs-cifar10
images=$data/cifar10-jpg
slack=3 # images that may fall the other way where two classes are level in the last bits

[ -d "$weights" ] || skip "the weights of the ConvNetJS network are not there: $weights"
for archive in train test; do
  [ -f "$images/$archive.tar.gz" ] || skip "the shared images are not there: $images/$archive.tar.gz"
done
python3 tests/tools/convert_convnetjs.py "$weights" "$work/models/convnetjs-cifar10"
start --models "$work/models"

check() { # archive, images, right
  local got
  python3 tests/tools/classify_archive.py "$url" "$images/$1" --model convnetjs-cifar10 --below 200 \
    --batch 100 >"$work/answer.json" ||
    fail "$1: $(cat "$work/answer.json")"
  echo "$1: $(cat "$work/answer.json")"
  [ "$(json "$work/answer.json" 'd["images"]')" = "$2" ] || fail "$1: not $2 images"
  got=$(json "$work/answer.json" 'd["right"]')
  [ $((got > $3 ? got - $3 : $3 - got)) -le $slack ] || fail "$1: $got of $2 right, expected $3"
}

check train.tar.gz 2000 1530
check test.tar.gz 1000 721
stop
