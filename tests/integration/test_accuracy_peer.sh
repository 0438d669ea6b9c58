#!/usr/bin/env bash
# The shared test images through the daemon: the first class as ONNX Runtime's on the same file, for all but 0.2 % of the
# CIFAR images and all but one of the Fashion images; and where they differ, ONNX Runtime's two best are level: their
# logits differ by less than 1e-3, and so do their probabilities.
# cifar10-resnet, 56 times as large as cifar10-convnet, is asked for 500 of the 5,000; CONVOY_WHOLE=1 asks for all.
# shellcheck disable=SC2119 # start and launch take options of convoyd, which are not this script's
# shellcheck source=tests/integration/models.sh
. "$(dirname "$0")/models.sh"
# shellcheck source=tests/integration/pypi.sh
. "$(dirname "$0")/pypi.sh"

venv=build/venv-onnxruntime
level=0.001

needs_test_images
have_peer() { "$venv/bin/python" -c 'import onnxruntime, numpy, PIL' 2>/dev/null; }
# The system's Pillow decodes with the system's libjpeg-turbo, as convoyd does.
have_peer || { CONVOY_VENV=--system-site-packages from_pypi "$venv" onnxruntime && have_peer; } >"$work/pip" 2>&1 ||
  skip "onnxruntime cannot be installed here: $(tail -n 1 "$work/pip")"
"$venv/bin/python" tests/tools/idx_archive.py "$fashion/test-images-idx3-ubyte.gz" "$fashion/test-labels-idx1-ubyte.gz" \
  "$work/fashion.tar"
start

# same MODEL ARCHIVE IMAGES MOST [BELOW]: of so many images at most MOST may differ.
same() {
  local model=$1 archive=$2 images=$3 most=$4 below=${5:-1000000}
  "$python" tests/tools/classify_archive.py "$url" "$archive" --model "$model" --batch 50 --below "$below" \
    --out "$work/ours" >"$work/answer" || fail "$model: $(cat "$work/answer")"
  "$venv/bin/python" tests/tools/onnxruntime_archive.py "models/$model" "$archive" "$work/peer" "$below"
  # A line: its name, convoyd's class, the name again, ONNX Runtime's class, by how much its first logit leads.
  paste -d ' ' "$work/ours" "$work/peer" >"$work/both"
  awk -v wanted="$images" -v most="$most" -v level=$level -v model="$model" '
    NF != 5 || $1 != $3 { print "the lists are of other images: " $0; bad = 1 }
    $2 != $4 { differ++; if (!($5 < level)) { print "not level: " $0; bad = 1 } }
    END {
      printf "%s: %d of %d images differ from ONNX Runtime\n", model, differ, NR
      exit bad || NR != wanted || differ > most
    }' "$work/both" || fail "$model answers otherwise than ONNX Runtime"
}
cifar=$(test_images cifar10-convnet)
same cifar10-convnet "$cifar" 5000 10
same fashion-ece408 "$work/fashion.tar" 431 1
same fashion-lenet "$work/fashion.tar" 431 1
if [ "${CONVOY_WHOLE:-0}" = 1 ]; then
  same cifar10-resnet "$cifar" 5000 10
else
  same cifar10-resnet "$cifar" 500 1 100
fi
stop
