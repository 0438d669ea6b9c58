#!/usr/bin/env bash
# One epoch of a training on the CPU: the log, the files, and that convoyd serves them. Needs PyTorch, onnx, onnxscript
# and onnxruntime, which are too large to install for a test: name a Python that has them in CONVOY_TORCH_PYTHON.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

needs_pillow
trainer=${CONVOY_TORCH_PYTHON:-$python}
"$trainer" -c 'import torch, onnx, onnxscript, onnxruntime, numpy, PIL' 2>/dev/null ||
  skip "there is no PyTorch with onnx, onnxscript and onnxruntime (CONVOY_TORCH_PYTHON names a Python that has them)"
export PYTHONDONTWRITEBYTECODE=1
"$python" tests/tools/training_data.py "$work/data"
for model in fashion-lenet cifar10-resnet; do
  "$trainer" models/train.py $model --data "$work/data" --device cpu --seed 7 --set epochs=2 batch=10 \
    --out "$work/models/$model/1" >"$work/out" 2>"$work/err" || fail "$model: $(cat "$work/out" "$work/err")"
  cmp "$work/out" "$work/models/$model/training.log" || fail "the log is not what was printed"
  for line in "^$model, seed 7, PyTorch .* on a CPU$" '^30 training images' '^data .* epochs 2, batch 10,' \
    '^epoch 1/2 loss [0-9.]* rate [0-9.]* time [0-9.]* s$' '^epoch 2/2 ' 'differs from PyTorch by [0-9.e-]* .* on 1 images' \
    'right with weights in 32 bits' ' multiply-adds an image' '^test accuracy .* of 30)$'; do
    grep -q "$line" "$work/out" || fail "$model: no line '$line': $(cat "$work/out")"
  done
  grep -q "$(printf '\r')" "$work/err" && fail "a progress bar off a terminal"
  [ "$(find "$work/models/$model/1" -type f)" = "$work/models/$model/1/model.onnx" ] || fail "other files than model.onnx"
done
start --backend cpu --models "$work/models"
expect 200 --data-binary @models/samples/ship.jpg "$url/classify?model=cifar10-resnet"
expect 200 --data-binary @models/samples/fashion/bag.png "$url/classify?model=fashion-lenet"
stop
