#!/usr/bin/env bash
# What ships in models/: every folder is complete and small enough, and every sample image is classified rightly by
# both models of its kind, through the daemon.
# sanitize: all
# shellcheck source=tests/integration/models.sh
. "$(dirname "$0")/models.sh"

most=20000000 # bytes of all model files

echo "The folders."
found=$(cd models && printf '%s\n' */1/model.onnx | sed 's|/.*||')
[ "$found" = "$(printf '%s\n' "${models[@]}")" ] || fail "the models are $found"
bytes=$(cat models/*/1/* | wc -c)
echo "$bytes bytes"
[ "$bytes" -le $most ] || fail "the model files take $bytes bytes, more than $most"
for model in "${models[@]}"; do
  for section in '# '"$model" '## Accuracy' '## Training' '## Weights in 16 bits' '## What it is not good for' '## Rights'; do
    grep -qx "$section" "models/$model/README.md" || fail "the card of $model has no '$section'"
  done
  [ "$(wc -l <"models/$model/labels.txt")" = 10 ] || fail "$model has not ten labels"
  [ "$(json "models/$model/config.json" 'd["labels"]')" = labels.txt ] || fail "the configuration of $model names no labels"
  grep -q "\[$model\](../models/$model/README.md)" docs/models.md || fail "docs/models.md does not tell of $model"
done

echo "The sample images."
start --backend cpu
samples() { # MODEL COUNT FILE...
  local model=$1 count=$2
  shift 2
  [ $# -eq "$count" ] || fail "$# samples for $model, not $count"
  "$build/bin/convoy" classify --url "$url" --json --model "$model" "$@" >"$work/out" || fail "$model: $(cat "$work/out")"
  # A file is named like its class, in small letters, with - for what is no letter.
  "$python" -S - "$work/out" "$model" <<'PYTHON' || fail "$model is wrong about the samples above"
import json, pathlib, re, sys
answer, wrong = json.load(open(sys.argv[1])), 0
assert answer["model"] == sys.argv[2], answer["model"]
for file in answer["files"]:
    label = file["predictions"][0]["label"]
    if re.sub("[^a-z]", "-", label.lower()) != pathlib.Path(file["file"]).stem:
        print(f"{file['file']} is taken for {label}")
        wrong += 1
sys.exit(wrong > 0)
PYTHON
}
for model in cifar10-convnet cifar10-resnet; do samples $model 4 models/samples/*.jpg; done
for model in fashion-lenet fashion-ece408; do samples $model 10 models/samples/fashion/*.png; done
expect 200 --data-binary @models/samples/ship.jpg "$url/classify"
[ "$(json "$work/body" 'd["model"]')" = cifar10-resnet ] || fail "the default model is another: $(cat "$work/body")"
stop
