#!/usr/bin/env bash
# What the device's JPEG decoder changes beside libjpeg: levels of the decoded pixels and of what they are resized to, and the classes and
# probabilities of labelled test images, enlarged to photographs, and of larger pictures that a program makes.
#   tests/bench/decoder_change.sh ARCHIVE [COUNT [MODEL]]     a tar of CLASS/NAME.jpg; 1000; cifar10-resnet, or a folder of a model
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
[ $# -ge 1 ] || die "usage: tests/bench/decoder_change.sh ARCHIVE [COUNT [MODEL]]"
archive=$1 count=${2:-1000} model=${3:-models/cifar10-resnet}
backend_here cuda
options=
if [ -n "$emulated" ]; then
  echo "On an emulated GPU, whose stand-in for the engines is libjpeg: there must be no difference."
  LD_LIBRARY_PATH=$(cd "$(dirname "$emulated")/nvjpeg" && pwd)
  export LD_LIBRARY_PATH
  options='"tune": "off", "worker": {"hang_timeout_ms": 20000}, '
fi
rm -rf "$measured"
mkdir "$work/models"
cp -r "$model" "$work/models/classes"
# Networks that answer with their input: the picture as it is decoded, and what a network of 224 x 224 is given.
"$python" tests/tools/pixel_model.py "$work/models/decoded" 3 375 500
"$python" tests/tools/pixel_model.py "$work/models/resized" 3 224 224 '{"resize": "crop", "resize_to": 256}'
printf '{%s"images": {"decoder": "gpu"}, "batching": {"max_batch": 8}}' "$options" >"$work/config.json"
serve cuda --config "$work/config.json" --models "$work/models"
grep -o 'text="JPEG files[^"]*"' "$work/log" || echo "the log says nothing of JPEG files"
"$python" tests/bench/decoder_change.py "$url" "$archive" "$count"
end_daemon
