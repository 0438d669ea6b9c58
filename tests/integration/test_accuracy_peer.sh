#!/usr/bin/env bash
# The shared test images through HTTP: the first class as ONNX Runtime's on the same file, for all but 0.2 %.
# shellcheck disable=SC2119 # start and launch take options of convoyd, which are not this script's
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

archive=$data/cifar10-jpg/test.tar.gz
venv=build/venv-tests
model=models/cifar10-convnet

[ -f "$archive" ] || skip "the shared test images are not there: $archive"
have_peer() { "$venv/bin/python" -c 'import onnxruntime, numpy, PIL' 2>/dev/null; }
# The system's Pillow decodes with the system's libjpeg-turbo, as convoyd does.
install_peer() {
  /usr/bin/python3 -m venv --system-site-packages "$venv" &&
    timeout 240 "$venv/bin/python" -m pip install -q onnxruntime numpy pillow
}
have_peer || { install_peer && have_peer; } >"$work/pip" 2>&1 ||
  skip "onnxruntime, numpy or pillow cannot be installed here: $(tail -n 1 "$work/pip")"
start
python3 tests/tools/classify_archive.py "$url" "$archive" --batch 50 --out "$work/convoyd"
stop
"$venv/bin/python" tests/tools/onnxruntime_archive.py $model "$archive" "$work/peer"
images=$(wc -l <"$work/peer")
differ=$(diff "$work/convoyd" "$work/peer" | grep -c '^<' || true)
echo "$differ of $images images differ from ONNX Runtime"
[ "$images" -eq 5000 ] || fail "ONNX Runtime classified $images images, not 5,000"
[ $((differ * 1000)) -le $((images * 2)) ] || fail "more than 0.2 % of the images differ from ONNX Runtime"
