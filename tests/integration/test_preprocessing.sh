#!/usr/bin/env bash
# sanitize: all
# Photographs as models were trained on them: a network that answers with its input shows what each configuration makes of
# a picture, beside Pillow's resize() with torchvision's and timm's arithmetic, then beside the normalised values.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

needs_pillow
"$python" - "$work" <<'PYTHON'
import json, pathlib, sys
sys.path.insert(0, "tests/tools")
from hostile_models import model, node
work = pathlib.Path(sys.argv[1])
NORMAL = {"preset": "imagenet"}
configurations = {
    "stretch": {}, "stretch-bicubic": {"interpolation": "bicubic"}, "stretch-lanczos": {"interpolation": "lanczos"},
    "stretch-nearest": {"interpolation": "nearest"}, "crop": {"resize": "crop"},
    "crop-bicubic": {"resize": "crop", "interpolation": "bicubic"},
    "resize-to": {"resize": "crop", "resize_to": 24}, "resize-to-lanczos": {"resize": "crop", "resize_to": 19, "interpolation": "lanczos"},
    "fraction": {"resize": "crop", "crop_fraction": 0.875}, "fraction-bicubic": {"resize": "crop", "crop_fraction": 0.9, "interpolation": "bicubic"},
    "fraction-nearest": {"resize": "crop", "crop_fraction": 0.77, "interpolation": "nearest"},
    "pad": {"resize": "pad"}, "pad-color": {"resize": "pad", "pad_color": [124, 116, 104], "interpolation": "bicubic"},
    "pad-lanczos": {"resize": "pad", "pad_color": 255, "interpolation": "lanczos"},
    "pad-nearest": {"resize": "pad", "pad_color": [0, 0, 255], "interpolation": "nearest"},
    "imagenet": {"preset": "imagenet"}, "imagenet-inception": {"preset": "imagenet-inception"}, "clip": {"preset": "clip"},
    "none": {"preset": "none"}, "imagenet-pad": {"preset": "imagenet", "resize": "pad"},
    "bgr": {"color": "bgr"}, "imagenet-bgr-pad": {"preset": "imagenet", "color": "bgr", "resize": "pad", "pad_color": [10, 20, 30]},
    "imagenet-to": {"preset": "imagenet", "resize_to": 22},
}
for name, given in configurations.items():
    # Pixels themselves, unless the normalisation is what is looked at.
    config = given if "preset" in given else {**given, "scale": 1}
    folder = work / "models" / name / "1"
    folder.mkdir(parents=True)
    (folder.parent / "config.json").write_text(json.dumps({"input": config, "output": {"softmax": "off"}}))
    (folder / "model.onnx").write_bytes(model([node("Flatten", "flat", ["x"], ["y"])], given=(-1, 3, 18, 18)))
(work / "configurations").write_text(json.dumps(configurations))
PYTHON
start --backend cpu --models "$work/models"
"$python" - "$url" "$work" <<'PYTHON' || fail "see above"
import io, json, math, pathlib, sys, urllib.request
from PIL import Image, ImageOps
url, work = sys.argv[1], pathlib.Path(sys.argv[2])
SIDE = 18
FILTERS = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS, "nearest": Image.NEAREST}
PRESETS = {
    "imagenet": {"resize": "crop", "crop_fraction": 0.875, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
    "imagenet-inception": {"resize": "crop", "crop_fraction": 0.875, "interpolation": "bicubic", "mean": [0.5] * 3, "std": [0.5] * 3},
    "clip": {"resize": "crop", "crop_fraction": 1.0, "interpolation": "bicubic",
             "mean": [0.48145466, 0.4578275, 0.40821073], "std": [0.26862954, 0.26130258, 0.27577711]},
    "none": {},
}

def prepared(image, c):
    """The picture as PIL's Resize(n), CenterCrop(SIDE) of torchvision, timm's transforms and ImageOps.pad make it."""
    chosen = FILTERS[c.get("interpolation", "bilinear")]
    how = c.get("resize", "stretch")
    if how == "stretch":
        return image.resize((SIDE, SIDE), chosen)
    if how == "pad":
        color = c.get("pad_color", 0)
        return ImageOps.pad(image, (SIDE, SIDE), chosen, tuple(color) if isinstance(color, list) else (color,) * 3)
    short = c.get("resize_to") or math.floor(SIDE / c.get("crop_fraction", 1.0))
    width, height = image.size
    size = (short, int(short * height / width)) if width <= height else (int(short * width / height), short)
    if size != image.size:
        image = image.resize(size, chosen)
    left, top = (int(round((side - SIDE) / 2.0)) for side in size)
    return image.crop((left, top, left + SIDE, top + SIDE))

def pictures():
    for width, height in ((500, 375), (375, 500), (18, 18), (47, 31), (640, 64), (300, 300), (24, 19), (1, 1)):
        bands = [Image.effect_noise((width, height), 80), Image.linear_gradient("L").resize((width, height)),
                 Image.radial_gradient("L").resize((width, height)).point(lambda level: 255 * (level > 128))]
        yield Image.merge("RGB", bands)

values = differing = 0
for image in pictures():
    file = io.BytesIO()
    image.save(file, "PNG")
    for name, given in json.loads((work / "configurations").read_text()).items():
        c = {**PRESETS.get(given.get("preset"), {}), **given}
        if "resize_to" in given or c.get("resize") != "crop":
            c.pop("crop_fraction", None)
        request = urllib.request.Request(f"{url}/v2/models/{name}/classify?top={3 * SIDE * SIDE}", data=file.getvalue())
        predictions = json.load(urllib.request.urlopen(request))["results"][0]["predictions"]
        got = [0.0] * (3 * SIDE * SIDE)
        for p in predictions:
            got[p["index"]] = p["probability"]
        normal = "mean" in c
        scale = 255 if normal else 1
        bands = prepared(image, c).split()
        if c.get("color") == "bgr":
            bands = bands[::-1]
        for channel, band in enumerate(bands):
            for i, level in enumerate(band.getdata()):
                value = got[channel * SIDE * SIDE + i]
                if normal:
                    value = (value * c["std"][channel] + c["mean"][channel]) * 255
                values += 1
                if abs(value - level) > 0.01:
                    differing += 1
                    if abs(value - level) > 1.01:
                        sys.exit(f"{image.size}, {name}: channel {channel}, pixel {i} is {value}, Pillow's {level}")
print(f"{values} values of {len(json.loads((work / 'configurations').read_text()))} configurations, {differing} are not Pillow's")
if differing > values // 1000:
    sys.exit("too many")
PYTHON

echo "What /config says, and what --check-config says of a mistake."
expect 200 "$url/v2/models/clip/config"
[ "$(json "$work/body" 'd["parameters"]["interpolation"]["string_value"]')" = bicubic ] || fail "$(cat "$work/body")"
[ "$(json "$work/body" 'd["parameters"]["resize"]["string_value"]')" = crop ] || fail "$(cat "$work/body")"
stop
echo '{"input": {"resize": "crop", "resize_to": 16}}' >"$work/models/crop/config.json"
"$build/bin/convoyd" --check-config --backend cpu --models "$work/models" >"$work/check" 2>&1 && fail "a crop of what is too small passes"
grep 'input.resize_to is 16, but the network reads 18 x 18 pixels' "$work/check" >/dev/null || fail "$(cat "$work/check")"
echo passed
