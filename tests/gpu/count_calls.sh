#!/usr/bin/env bash
# Builds count_calls.c where the CUDA toolkit has CUPTI: tests/gpu/count_calls.sh FILE.so. Exit status 77, and why on the last
# line, where it has not.
set -euo pipefail
cd "$(dirname "$0")"
toolkit=${CUDA_HOME:-/usr/local/cuda}
library=$(find -L "$toolkit" /opt -name libcupti.so -print -quit 2>/dev/null || true)
header=$(find -L "$toolkit" -name cupti.h -print -quit 2>/dev/null || true)
if [ -z "$library" ] || [ -z "$header" ]; then
  echo "there is no CUPTI in $toolkit"
  exit 77
fi
cupti=$(dirname "$library")
gcc -shared -fPIC -O2 -Wall -Wextra -I"$toolkit/include" -I"$(dirname "$header")" count_calls.c -o "$1" -L"$cupti" \
  -Wl,-rpath,"$cupti" -lcupti -lpthread
