#!/usr/bin/env bash
# What --check-config says of models that can be served: what becomes of a picture, what the answers mean, and what is
# probably a mistake.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

"$python" - "$work/models" <<'PYTHON'
import json, pathlib, sys
sys.path.insert(0, "tests/tools")
from hostile_models import model, node

def put(name, config, nodes, given, labels=None):
    folder = pathlib.Path(sys.argv[1]) / name / "1"
    folder.mkdir(parents=True)
    (folder.parent / "config.json").write_text(json.dumps(config))
    if labels:
        (folder.parent / "labels.txt").write_text("\n".join(labels) + "\n")
    (folder / "model.onnx").write_bytes(model(nodes, given=given))

flat, rgb = [node("Flatten", "f", ["x"], ["y"])], (-1, 3, 16, 16)
sigmoid = [node("Flatten", "f", ["x"], ["t"]), node("Sigmoid", "s", ["t"], ["y"])]
put("imagenet", {"input": {"preset": "imagenet"}, "devices": [0]}, flat, rgb, ["first"] + ["x"] * 766 + ["la\x1b[31mst"])
put("padded", {"input": {"resize": "pad", "pad_color": [1, 2, 3], "interpolation": "lanczos", "color": "bgr"},
               "output": {"activation": "sigmoid", "threshold": 0.25}, "precision": "tf32"}, flat, rgb)
put("grey", {}, sigmoid, (-1, 1, 8, 20))
put("mean", {"input": {"mean": [123.68, 116.78, 103.94], "std": [58.4, 57.1, 57.4]}}, flat, rgb)
put("scale", {"input": {"scale": 1, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}}, flat, rgb)
put("bytes", {"input": {"scale": 1, "mean": [123.68, 116.78, 103.94], "std": [58.4, 57.1, 57.4]}}, flat, rgb)
put("channels", {}, flat, (-1, 5, 4, 4))
put("labels", {}, flat, rgb, ["cat", "dog"])
put("single", {}, flat, (-1, 1, 1, 1))
put("chance", {"output": {"activation": "sigmoid"}}, flat, (-1, 1, 1, 1))
put("twice", {"output": {"activation": "softmax"}}, sigmoid, rgb)
PYTHON
"$build/bin/convoyd" --check-config --backend cpu --models "$work/models" >"$work/out" 2>"$work/log" || fail "$(cat "$work/out")"

# said MODEL: its lines.
said() { sed -n "/^model $1 version 1: ok\$/,/^model /p" "$work/out" | grep '^  '; }
says() { said "$1" | grep -F "$2" >/dev/null || fail "$1 does not say '$2': $(said "$1")"; }
warns() { [ "$(said "$1" | grep -c '^  warning: ')" = "$2" ] || fail "$1: $(said "$1")"; }

says imagenet "input    'x', 3 x 16 x 16 (channels x height x width)"
says imagenet "pictures red, green, blue, scaled to cover 18 x 18, centre cropped to 16 x 16 (width x height), bilinear"
says imagenet "pixels   (0 to 255) times 0.00392157, less 0.485 0.456 0.406, divided by 0.229 0.224 0.225"
says imagenet "output   'y', 768 classes, softmax makes probabilities"
says imagenet "labels   768: first to la?[31mst"
says imagenet "weights  0.0 MB on device 0, fp32 at least"
says padded "pictures blue, green, red, scaled to fit, padded with 1 2 3 to 16 x 16 (width x height), lanczos"
says padded "classes, a sigmoid makes probabilities, from 0.25 on"
says padded "on each device, tf32 at least"
says grey "pictures grey, stretched to 20 x 8 (width x height), bilinear"
says grey "160 classes, they come from a sigmoid"
says grey "labels   none"
for good in imagenet padded grey bytes chance; do warns $good 0; done
says mean 'warning: input.mean is above every pixel, which input.scale brings to 1 at most'
says scale 'warning: input.mean and input.std are those of pixels from 0 to 1, but with input.scale 1'
says channels 'warning: it takes no pictures, as it reads 5 channels'
says labels 'warning: 2 labels for 768 classes'
says single 'warning: of one class softmax makes 1 whatever the picture shows'
says twice 'warning: output.activation is softmax, but the network ends in a sigmoid'
for doubtful in mean scale channels labels twice single; do warns $doubtful 1; done
grep -q $'\x1b' "$work/out" && fail "a label reaches the terminal as it is"
echo passed
