#!/usr/bin/env bash
# tests/bench/networks.sh with networks of timm and torchvision: the module that PyTorch runs and the file that convoyd runs have
# the same weights, so that each program's answers are those of the module in float64. Without a GPU on the emulation of one. Needs
# PyTorch and more, which are too large to install for a test: CONVOY_TORCH_PYTHON names a Python that has them.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

trainer=${CONVOY_TORCH_PYTHON:-build/venv-survey/bin/python}
"$trainer" -c 'import torch, onnx, torchvision, timm, numpy' 2>/dev/null ||
  skip "there is no PyTorch with torchvision, timm and onnx (CONVOY_TORCH_PYTHON names a Python with them)"
tree=$build
needs_cuda
export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore PYTHON=$trainer

options=(--batches 2 --runs 1 --rounds 1 --seed 5 --tune-seconds 0 --cache "$work/cache" --json "$work/json")
# measure OPTION...
measure() { tests/bench/networks.sh "$tree" "${options[@]}" "$@" >"$work/out" 2>"$work/log" || fail "$(cat "$work/out")"; }
# holds CONDITION: for every measurement m of every network n.
holds() {
  [ "$(json "$work/json" "all($1 for n in d['networks'] for m in n['measurements'])")" = True ] || fail "not so: $1: $(cat "$work/json")"
}
# of NETWORK: its programs.
of() { json "$work/json" "sorted(m['program'] + ' ' + m['precision'] for n in d['networks'] if n['module'] == '$1' for m in n['measurements'])"; }

echo "Ours and PyTorch's answers are those of the module in float64."
# Attention, and convolutions with LayerNormalization: no peer can run their files node by node. Compiling takes minutes on a CPU.
compiled=--no-compile programs="['PyTorch fp32', 'PyTorch, channels last fp16', 'ours fp16', 'ours fp32'"
if [ "${CONVOY_WHOLE:-0}" = 1 ]; then compiled=--compile=timm:test_convnext programs+=", 'torch.compile fp16'"; fi
measure --networks timm:test_vit,timm:test_convnext --precisions fp32,fp16 $compiled
cat "$work/out"
holds 'n["reference"] == "PyTorch in float64" and m["rounds"] and not m["left_out"]'
holds '0 < m["error"] < (1e-5 if m["precision"] == "fp32" else 1e-2)'
[ "$(of timm:test_convnext)" = "$programs]" ] || fail "other programs: $(of timm:test_convnext)"
[ "$(of timm:test_vit)" = "${programs%, \'torch*}]" ] || fail "other programs: $(of timm:test_vit)"
grep -q '^PyTorch runs the module timm:test_vit itself, ' "$work/out" || fail "it does not say what PyTorch runs: $(cat "$work/out")"

echo "So they are where statistics of batch normalisation are those of random images."
measure --networks torchvision:shufflenet_v2_x0_5 --precisions fp32 --no-compile
[ "$(of torchvision:shufflenet_v2_x0_5)" = "['PyTorch fp32', 'ours fp32']" ] || fail "other programs: $(cat "$work/json")"
holds 'n["reference"] == "PyTorch in float64" and m["rounds"] and 0 < m["error"] < 1e-5'

echo "A file is run node by node; what of it PyTorch has no call for is told, and convoyd is measured all the same."
measure --networks "$work/cache/timm-test_vit-5.onnx" --precisions fp32 --no-compile
[ "$(json "$work/json" "d['networks'][0]['module'], d['networks'][0]['reference']")" = "(None, \"convoyd's CPU backend in fp32\")" ] || fail "$(cat "$work/json")"
holds '(m["program"] == "ours") == (m["left_out"] is None)'
grep -q '^- left out: .*peer_operators.py has no .*LayerNormalization' "$work/out" || fail "$(cat "$work/out")"
echo "passed"
