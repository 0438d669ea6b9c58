#!/usr/bin/env bash
# How good are the estimates by which convolution kernels are chosen before anything was timed? For each layer: the fastest of all
# kernels that take it, the one with the least estimate, and how much longer that one takes; then the geometric mean. On a machine
# with a GPU of compute capability 9.0; from a tree of tests/gpu/pack.sh or ./build.sh.
#   tests/bench/estimates.sh PROGRAM [SHAPE...]   PROGRAM: convoy-kernels; SHAPE: as for its --conv
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
program=$1
shift
[ $# -gt 0 ] || set -- 1,64,56,56,256,1,1 1,128,28,28,128,3,3,1,1 1,1024,14,14,256,1,1 1,256,14,14,256,3,3,1,1 1,2048,7,7,512,1,1 \
  1,512,7,7,2048,1,1 1,768,1,197,2304,1,1 1,3072,1,197,768,1,1 8,64,56,56,256,1,1 8,128,28,28,512,1,1 8,1024,14,14,256,1,1 \
  8,512,14,14,512,3,3,1,1 8,512,7,7,512,3,3,1,1 8,768,1,197,768,1,1 8,256,28,28,512,3,3,1,1 32,256,14,14,256,3,3,1,1 \
  64,512,7,7,512,3,3,1,1 256,768,17,17,576,1,1
launch_us=5.5 # that a kernel takes longer between two events than behind another kernel
for shape; do
  "$program" --conv "$shape" --bias --act relu --products fp16 --cudnn none --runs 15 | awk -v shape="$shape" -v launch="$launch_us" '
    # Those that change their inputs answer another question.
    /^nhwc_/ && !/^nhwc_(gated|scaled)/ {
      us = $3 * 1000 - launch
      if (best == "" || us < least) { best = $1; least = us }
      if (pick == "" || $4 < guess) { pick = $1; guess = $4; took = us }
    }
    END {
      if (best == "") exit
      printf "%-28s %8.1f us %-24s %8.1f us %-24s (estimated %.1f) %.2f\n", shape, least, best, took, pick, guess * 1000, took / least
    }'
done | awk '{ print; sum += log($NF); n++ } END { if (n) printf "%d layers: %.3f in the geometric mean\n", n, exp(sum / n); exit n == 0 }'
