#!/usr/bin/env bash
# What images.scaled_decoding "auto" changes: 1,000 labelled test images, enlarged to pictures, classified by cifar10-resnet
# whole and in part. Takes some minutes.
#   tests/bench/scaled_decoding.sh ARCHIVE     a tar of CLASS/NAME.jpg
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh"
[ $# -eq 1 ] || die "usage: tests/bench/scaled_decoding.sh ARCHIVE"
cp -r models/cifar10-resnet "$measured"
serve cpu --models "$measured"
"$python" tests/bench/scaled_decoding_change.py "$url" cifar10-resnet "$1"
end_daemon
