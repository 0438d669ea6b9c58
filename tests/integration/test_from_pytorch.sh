#!/usr/bin/env bash
# models/from_pytorch.py: the folder that it writes of a network of torchvision, of timm and of files, and that a convoyd answers
# as the record says, which convoy verify asks. Weights are random: nothing is downloaded. Needs PyTorch and more, which are too
# large to install for a test: name a Python that has them in CONVOY_TORCH_PYTHON, or let tests/survey/run.sh make one.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

trainer=${CONVOY_TORCH_PYTHON:-build/venv-survey/bin/python}
"$trainer" -c 'import torch, onnx, onnxscript, onnxruntime, torchvision, timm, PIL' 2>/dev/null ||
  skip "there is no PyTorch with torchvision, timm, onnx, onnxscript, onnxruntime (CONVOY_TORCH_PYTHON names a Python with them)"
export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore
models=$work/models
# make NAME ARGUMENT...: the folder is written.
make() {
  "$trainer" models/from_pytorch.py --out "$models" --name "$@" >"$work/out" 2>"$work/err" || fail "$*: $(cat "$work/out" "$work/err")"
  [ ! -e "$models/.$1.new" ] || fail "$*: something is left behind"
}
# refuses PATTERN ARGUMENT...: status 1, a sentence of that pattern, and nothing is written.
refuses() {
  local pattern=$1 status=0
  shift
  "$trainer" models/from_pytorch.py --out "$models" --name no "$@" >"$work/out" 2>"$work/err" || status=$?
  [ $status -eq 1 ] || fail "$*: status $status: $(cat "$work/err")"
  grep -qE "^from_pytorch.py: .*$pattern.*[.]\$" "$work/err" || fail "$*: no sentence of '$pattern': $(cat "$work/err")"
  [ -z "$(find "$models" -maxdepth 1 -name '*no*')" ] || fail "$*: something is written: $(ls -A "$models")"
}
# input NAME KEY: from its config.json.
input() { json "$models/$1/config.json" "d['input'].get('$2')"; }
is() { [ "$1" = "$2" ] || fail "'$1', expected '$2'"; }

echo "Networks of the libraries, with their own preprocessing and labels."
mkdir "$models"
make vision --random mobilenet_v3_small
grep -q '^the export differs from PyTorch by [0-9.]*e-0[5-9] of the largest output$' "$work/out" || fail "$(cat "$work/out")"
is "$(input vision resize) $(input vision resize_to) $(input vision interpolation)" 'crop 256 bilinear'
is "$(input vision mean) $(input vision std)" '[0.485, 0.456, 0.406] [0.229, 0.224, 0.225]'
is "$(wc -l <"$models/vision/labels.txt") $(sed -n 1p "$models/vision/labels.txt")" '1000 tench'
make timms --random timm:lcnet_050 --precision tf32
is "$(input timms resize) $(input timms crop_fraction) $(input timms interpolation)" 'crop 0.875 bicubic'
is "$(json "$models/timms/config.json" 'd["precision"]')" tf32
is "$(wc -l <"$models/timms/labels.txt")" 1000
[ "$(json "$models/timms/verify.json" 'd["tolerance"]')" = 0.02 ] || fail "$(head -c 300 "$models/timms/verify.json")"
make whole --random timm:resnet26t --exporter torchscript --opset 13
is "$(input whole crop_fraction) $(input whole resize)" '0.94 crop'

hub=()
if "$trainer" -c 'import transformers' 2>/dev/null; then
  echo "A network of transformers, with the hub's files."
  "$trainer" - "$work/hub" <<'PYTHON' >/dev/null 2>&1
import sys, transformers
config = transformers.AutoConfig.for_model("deit", num_hidden_layers=2, hidden_size=48, num_attention_heads=3, intermediate_size=96)
config.id2label = {number: f"class {number}" for number in range(10)}
config.architectures = ["DeiTForImageClassification"]
config.save_pretrained(sys.argv[1])
transformers.DeiTImageProcessorPil().save_pretrained(sys.argv[1])
PYTHON
  hub=(deit named)
  make deit --random "transformers:$work/hub" --precision tf32
  is "$(tr -d ' \n' <"$models/deit/convoyd-model.json")" '{"precision":"tf32"}'
  is "$(json "$models/deit/preprocessor_config.json" 'd["image_processor_type"]')" DeiTImageProcessor
  is "$(json "$models/deit/verify.json" 'd["classes"][0]["label"][:6]')" 'class '
  [ ! -e "$models/deit/labels.txt" ] || fail "labels are written twice"
  seq 10 20 >"$work/ten"
  make named --random "transformers:$work/hub" --labels "$work/ten"
  [ -s "$models/named/labels.txt" ] || fail "no labels are written"
  rm "$work/hub/preprocessor_config.json"
  refuses 'preprocessor_config.json' --random "transformers:$work/hub"
else
  echo "This Python has no transformers: skipped."
fi

echo "Files: TorchScript, a pickled module, ONNX with weights beside it."
"$trainer" - "$work" <<'PYTHON'
import sys, torch
torch.manual_seed(3)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5, 2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                          torch.nn.Linear(8, 4), torch.nn.Softmax(1)).eval()
torch.jit.script(net).save(sys.argv[1] + "/script.pt")
torch.save(net, sys.argv[1] + "/module.pth")
torch.save(net.state_dict(), sys.argv[1] + "/weights.pth")
torch.onnx.export(net, (torch.randn(1, 3, 40, 30),), sys.argv[1] + "/net.onnx", dynamo=True, external_data=True, verbose=False)
PYTHON
printf 'a\nb  c\nd\ne\n' >"$work/labels"
make script "$work/script.pt" --size 40 30 --preset imagenet-inception --labels "$work/labels"
is "$(input script preset)" imagenet-inception
is "$(sed -n 2p "$models/script/labels.txt")" 'b c'
refuses 'module.pth is no TorchScript; .* --trust' "$work/module.pth" --size 40
make module "$work/module.pth" --size 40 --preset none --trust
refuses 'weights.pth holds weights alone' "$work/weights.pth" --trust
make file "$work/net.onnx"
[ -s "$models/file/1/net.onnx.data" ] || fail "the weights are left behind: $(ls "$models/file/1")"
is "$(input file preset)" imagenet
is "$(json "$models/file/verify.json" 'abs(sum(d["outputs"][0]["values"]) - 1) < 1e-5 and d["classes"][0]["probability"] == float("%.6g" % max(d["outputs"][0]["values"]))')" True

echo "Files of other types, orders and sizes."
PYTHONPATH=tests/tools "$trainer" tests/tools/input_models.py "$work/inputs"
declared=(nhwc open fp16 uint8 uint8-nhwc open-nhwc rgba-network)
for name in "${declared[@]}"; do make "$name" "$work/inputs/good/$name/1/model.onnx" --preset none --size 12 10; done
is "$(input nhwc layout) $(input uint8 layout)" 'nhwc None'
is "$(input open-nhwc height) $(input open-nhwc width) $(input nhwc height)" '12 10 None'
refuses 'reads pixels from 0 to 255 .* --preset none' "$work/inputs/good/uint8/1/model.onnx"
refuses 'reads other numbers than float32, float16 and uint8' "$work/inputs/bad/int32/1/model.onnx"

echo "What cannot be."
refuses "'nonet' is neither a file nor a network of torchvision or timm" nonet
refuses "'else:net': the source is torchvision, timm or transformers" else:net
refuses 'none.onnx is no file' "$work/none.onnx"
head -c 1000 "$work/net.onnx" >"$work/cut.onnx"
status=0
"$trainer" models/from_pytorch.py --out "$models" --name cut "$work/cut.onnx" >"$work/out" 2>"$work/err" || status=$?
if [ $status -eq 0 ] || [ -e "$models/cut" ]; then fail "a file that is cut is taken: $(cat "$work/out")"; fi
status=0
"$trainer" models/from_pytorch.py --out "$models" --name file "$work/net.onnx" >"$work/out" 2>"$work/err" || status=$?
[ $status -eq 1 ] || fail "a model is replaced unasked: $(cat "$work/out")"
grep -q 'file exists: .*--force' "$work/err" || fail "$(cat "$work/err")"
make file --force "$work/net.onnx"

echo "A daemon answers each as recorded."
start --backend cpu --models "$models"
for name in vision timms whole script module file "${hub[@]}" "${declared[@]}"; do
  "$build/bin/convoy" verify --url "$url" --models "$models" "$name" >"$work/out" 2>&1 || fail "$name: $(cat "$work/out")"
  "$build/bin/convoy" verify --url "$url" --models "$models" --json "$name" >"$work/out"
  is "$(json "$work/out" 'd["difference"] < 1e-3')" True
  sed -n 's/.*"difference":/'"$name"'/p' "$work/out"
done
stop
