#!/usr/bin/env bash
# sanitize: all
# Folders as they are downloaded from the Hugging Face hub: onnx/model.onnx with all dimensions open, transformers' config.json and
# preprocessor_config.json, weights of other formats beside. Answers have the hub's labels, and pictures become what Pillow makes of them.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

needs_pillow
"$python" - "$work" <<'PYTHON'
import json, pathlib, sys
sys.path.insert(0, "tests/tools")
from hostile_models import model, node
work = pathlib.Path(sys.argv[1])
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
preprocessors = {
    "vit": {"image_processor_type": "ViTImageProcessor", "size": {"height": 18, "width": 18}, "resample": 2, **HALF},
    "deit": {"feature_extractor_type": "DeiTFeatureExtractor", "size": 21, "crop_size": 18, "resample": 3, **HALF},
    "convnext": {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 18}, "crop_pct": 0.875, "resample": 3, **HALF},
    "mobilevit": {"image_processor_type": "MobileViTImageProcessor", "size": {"shortest_edge": 21}, "crop_size": {"height": 18, "width": 18}, "resample": 2},
}
# It answers with its input: a class for each value.
network = model([node("Flatten", "flat", ["x"], ["y"])], given=(-1, -1, -1, -1))
for name, preprocessor in preprocessors.items():
    folder = work / "models" / name
    (folder / "onnx").mkdir(parents=True)
    (folder / "onnx" / "model.onnx").write_bytes(network)
    (folder / "onnx" / "model_quantized.onnx").write_bytes(b"not looked at")
    (folder / "pytorch_model.bin").write_bytes(b"not looked at")
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["SomeForImageClassification"], "model_type": name, "hidden_size": 7, "torch_dtype": "float32",
        "id2label": {str(k): f"pixel {k}" for k in range(972)}, "label2id": {f"pixel {k}": k for k in range(972)}}))
    (folder / "preprocessor_config.json").write_text(json.dumps({"do_resize": True, **preprocessor}))
(work / "models/mobilevit/convoyd-model.json").write_text('{"output": {"activation": "none"}}')
(work / "preprocessors").write_text(json.dumps(preprocessors))
PYTHON
"$build/bin/convoyd" --check-config --backend cpu --models "$work/models" >"$work/check" 2>&1 || fail "$(cat "$work/check")"
grep -q "pictures red, green, blue, stretched to 21 x 21, centre cropped to 18 x 18" "$work/check" || fail "$(cat "$work/check")"
grep -q "labels   972: pixel 0 to pixel 971" "$work/check" || fail "$(cat "$work/check")"

start --backend cpu --models "$work/models"
"$python" - "$url" "$work" <<'PYTHON' || fail "see above"
import io, json, math, pathlib, sys, urllib.request
from PIL import Image
url, work = sys.argv[1], pathlib.Path(sys.argv[2])
SIDE = 18
FILTERS = {2: Image.BILINEAR, 3: Image.BICUBIC}

def prepared(name, c, image):
    """As the class of transformers does; a cut begins at half of the margin, rounded down."""
    width, height = image.size
    if name in ("vit", "deit"):
        size = (c["size"],) * 2 if name == "deit" else (SIDE, SIDE)
    else:
        short = int(SIDE / c["crop_pct"]) if name == "convnext" else c["size"]["shortest_edge"]
        size = (short, int(short * height / width)) if width <= height else (int(short * width / height), short)
    image = image.resize(size, FILTERS[c["resample"]])
    left, top = ((side - SIDE) // 2 for side in size)
    return image.crop((left, top, left + SIDE, top + SIDE))

checked = 0
for name, c in json.loads((work / "preprocessors").read_text()).items():
    for size in ((40, 30), (30, 38), (23, 21), (21, 22)):
        image = Image.effect_noise(size, 80).convert("RGB")
        image = Image.merge("RGB", [image.getchannel(0), image.getchannel(1).point(lambda v: 255 - v), image.getchannel(2).rotate(180)])
        file = io.BytesIO()
        image.save(file, "PNG")
        request = urllib.request.Request(f"{url}/v2/models/{name}/classify?top=972", file.getvalue(), {"Content-Type": "image/png"})
        answer = json.load(urllib.request.urlopen(request))
        result = answer["results"][0] if "results" in answer else answer
        got = {entry["label"]: entry for entry in result["predictions"]}
        wanted = prepared(name, c, image)
        planes = [plane.tobytes() for plane in wanted.split()]
        if name == "mobilevit":
            planes.reverse()
        pixels = [value for plane in planes for value in plane]
        if len(got) != 972:
            sys.exit(f"{name}: {len(got)} labels")
        for k, pixel in enumerate(pixels):
            probability = got[f"pixel {k}"]["probability"]
            if name == "mobilevit":  # the logits: pixels from 0 to 1
                seen = probability * 255
                if abs(seen - pixel) > 0.01:
                    sys.exit(f"{name}, {size}: pixel {k} is {seen}, not {pixel}")
        if name != "mobilevit":  # softmax of (pixel / 255 - 0.5) / 0.5: the ratio to the first tells the difference
            first = got["pixel 0"]["probability"]
            for k, pixel in enumerate(pixels):
                seen = math.log(got[f"pixel {k}"]["probability"] / first) * 127.5 + pixels[0]
                if abs(seen - pixel) > 0.05:
                    sys.exit(f"{name}, {size}: pixel {k} is {seen}, not {pixel}")
        checked += 1
print(f"{checked} pictures")
if checked != 16:
    sys.exit("some were left out")
PYTHON

echo "What is missing is said."
rm "$work/models/vit/preprocessor_config.json"
"$build/bin/convoyd" --check-config --backend cpu --models "$work/models" >"$work/check" 2>&1 && fail "$(cat "$work/check")"
grep -q "vit/preprocessor_config.json is not there, which comes with config.json: download it, too; or write" "$work/check" || fail "$(cat "$work/check")"
stop
echo passed
