#!/usr/bin/env bash
# NVIDIA's perf_analyzer, unchanged, from the last wheel of tritonclient that has it (PyPI): tensors in the body and in shared memory.
# all: the wheels are large, of which it uses little
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

[ "$(uname -m)" = x86_64 ] || skip "perf_analyzer is for x86_64"
folder=$PWD/build/perf-analyzer
# The wheel, and the two libraries that the program wants: libcudart, of which it uses nothing here, and libb64.
get() {
  local venv=$folder/venv file
  rm -rf "$folder"
  mkdir -p "$folder/got" && /usr/bin/python3 -m venv "$venv" || return
  timeout 240 "$venv/bin/python" -m pip download -q --no-deps -d "$folder/got" tritonclient==2.46.0 nvidia-cuda-runtime-cu12 || return
  for file in "$folder/got"/*.whl; do
    /usr/bin/python3 -m zipfile -e "$file" "$folder/got" || return
  done
  ldconfig -p | grep 'libb64\.so\.0d' >/dev/null ||
    (cd "$folder/got" && apt-get download -q -o APT::Sandbox::User=root libb64-0d && dpkg-deb -x libb64-0d_*.deb .) || return
  mkdir "$folder/lib" && find "$folder/got" \( -name 'libcudart.so.12' -o -name 'libb64.so.0d' \) -exec cp {} "$folder/lib/" \; &&
    install -m 755 "$folder"/got/tritonclient-*.data/data/bin/perf_analyzer "$folder/" && rm -rf "$folder/got" "$venv"
}
starts() {
  LD_LIBRARY_PATH=$folder/lib "$folder/perf_analyzer" --help >"$work/help" 2>&1 || true # its status is 1
  grep 'shared-memory' "$work/help" >/dev/null || { tail -n 1 "$work/help" && false; }
}
starts || { get && starts; } >"$work/get" 2>&1 || skip "perf_analyzer cannot be had here: $(tail -n 1 "$work/get")"

configure 'shared_memory={"enabled": true}'
start --backend cpu --config "$work/config.json"
# analyse ARGUMENTS...: half a second of requests of four rows, two at a time. Sets $inferences to what it counted.
analyse() {
  LD_LIBRARY_PATH=$folder/lib timeout 60 "$folder/perf_analyzer" -m cifar10-convnet -u "127.0.0.1:$port" -b 4 --concurrency-range 2 \
    -p 500 -s 999 -r 3 -f "$work/report.csv" "$@" >"$work/said" 2>&1 || fail "perf_analyzer $*: $(cat "$work/said")"
  grep -iE 'error|failed' "$work/said" && fail "perf_analyzer $*: $(cat "$work/said")"
  inferences=$(sed -n 's/.*Inference count: *//p' "$work/said")
  [ "${inferences:-0}" -gt 0 ] || fail "perf_analyzer $* counted nothing: $(cat "$work/said")"
}
regions() { curl -fsS "$url/v2/systemsharedmemory/status"; }

echo "Without shared memory."
analyse

echo "In shared memory."
analyse --shared-memory system --output-shared-memory-size 4096
[ "$(regions | tr -d '\n ')" = '[]' ] || fail "regions are left: $(regions)"

echo "It sees what a server without CUDA's shared memory says."
if LD_LIBRARY_PATH=$folder/lib timeout 60 "$folder/perf_analyzer" -m cifar10-convnet -u "127.0.0.1:$port" --shared-memory cuda \
  --output-shared-memory-size 4096 >"$work/said" 2>&1; then
  fail "shared memory of CUDA: $(cat "$work/said")"
fi
expect 200 --data-binary @models/samples/ship.jpg "$url/v2/models/cifar10-convnet/classify"
stop
echo "passed"
