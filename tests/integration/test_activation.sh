#!/usr/bin/env bash
# What makes probabilities of a network's scores, and which classes are named: output.activation, output.threshold and
# ?threshold=, for networks that end in scores, a sigmoid or a softmax.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

"$python" - "$work/models" <<'PYTHON'
import json, pathlib, sys
sys.path.insert(0, "tests/tools")
from hostile_models import model, node
flat = node("Flatten", "flat", ["x"], ["s"])
ends = {"scores": [node("Flatten", "flat", ["x"], ["y"])], "sigmoid": [flat, node("Sigmoid", "end", ["s"], ["y"])],
        "softmax": [flat, node("Softmax", "end", ["s"], ["y"])]}
for end, nodes in ends.items():
    for name, output in (("auto", {}), ("of-sigmoid", {"activation": "sigmoid"}), ("of-none", {"activation": "none"}),
                         ("of-softmax", {"activation": "softmax"}), ("labels", {"activation": "sigmoid", "threshold": 0.6})):
        folder = pathlib.Path(sys.argv[1]) / f"{end}-{name}" / "1"
        folder.mkdir(parents=True)
        (folder.parent / "config.json").write_text(json.dumps({"output": output, "input": {"mean": 0.5, "std": 0.1}}))
        (folder / "model.onnx").write_bytes(model(nodes, given=(-1, 1, 1, 7)))
PYTHON
start --backend cpu --models "$work/models"
"$python" - "$url" <<'PYTHON' || fail "see above"
import json, math, struct, sys, urllib.error, urllib.request, zlib
url = sys.argv[1]
LEVELS = [0, 60, 100, 128, 150, 200, 255]
scores = [(level / 255 - 0.5) / 0.1 for level in LEVELS]

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

picture = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 7, 1, 8, 0, 0, 0, 0)) +
           chunk(b"IDAT", zlib.compress(b"\0" + bytes(LEVELS))) + chunk(b"IEND", b""))

def asked(name, query=""):
    try:
        answer = urllib.request.urlopen(urllib.request.Request(f"{url}/v2/models/{name}/classify{query}", data=picture))
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]
    return [(p["index"], p["probability"]) for p in json.load(answer)["results"][0]["predictions"]]

def softmax(values):
    total = sum(math.exp(v) for v in values)
    return [math.exp(v) / total for v in values]

def sigmoid(values):
    return [1 / (1 + math.exp(-v)) for v in values]

same = {"scores": list, "sigmoid": sigmoid, "softmax": softmax}
for end, ending in same.items():
    values = ending(scores)
    wanted = {"auto": softmax(values) if end == "scores" else values, "of-sigmoid": sigmoid(values), "of-none": values,
              "of-softmax": softmax(values)}
    for name, expected in wanted.items():
        got = asked(f"{end}-{name}", "?top=7")
        assert [index for index, _ in got] == [6, 5, 4, 3, 2, 1, 0], (end, name, got)
        for index, probability in got:
            assert abs(probability - expected[index]) < 1e-5 * max(1, abs(expected[index])), (end, name, index, probability, expected)

# sigmoid of the scores: 0.007, 0.066, 0.249, 0.505, 0.707, 0.945, 0.993
def indices(*arguments):
    return [index for index, _ in asked(*arguments)]
assert indices("scores-of-sigmoid") == [6, 5, 4, 3, 2], "five, as ever"
assert indices("scores-of-sigmoid", "?threshold=0.01") == [6, 5, 4, 3, 2, 1]
assert indices("scores-of-sigmoid", "?threshold=0.01&top=2") == [6, 5]
assert indices("scores-labels") == [6, 5, 4]
assert indices("scores-labels", "?threshold=0.95") == [6]
assert indices("scores-labels", "?threshold=1") == []
assert indices("scores-labels", "?threshold=0") == [6, 5, 4, 3, 2]
for wrong in ("2", "-1", "x", "", "0.5.5"):
    code, sentence = asked("scores-labels", f"?threshold={wrong}")
    assert code == 400 and "query parameter threshold must be a number from 0 to 1" in sentence, (code, sentence)
config = json.load(urllib.request.urlopen(f"{url}/v2/models/scores-labels/config"))["parameters"]
assert config["activation"]["string_value"] == "sigmoid" and config["softmax"]["string_value"] == "off", config
PYTHON

echo "convoy classify."
"$python" - "$work/picture.png" <<'PYTHON'
import struct, sys, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 7, 1, 8, 0, 0, 0, 0)) + chunk(
    b"IDAT", zlib.compress(b"\0" + bytes([0, 60, 100, 128, 150, 200, 255]))) + chunk(b"IEND", b""))
PYTHON
# named ARGUMENTS...: how many classes are printed.
named() { "$build/bin/convoy" classify --url "$url" --model scores-labels "$@" "$work/picture.png" | grep -c ' %'; }
[ "$(named)" = 3 ] || fail "the model's threshold: $(named)"
[ "$(named --threshold 0.01)" = 6 ] || fail "a lower one: $(named --threshold 0.01)"
[ "$(named --threshold 0)" = 5 ] || fail "none: $(named --threshold 0)"
[ "$(named --threshold 0.01 --top 1)" = 1 ] || fail "a lower one, and one class"
"$build/bin/convoy" classify --url "$url" --model scores-labels --threshold 1 "$work/picture.png" >"$work/none" || fail "no class is an error"
grep 'no class reaches the threshold' "$work/none" >/dev/null || fail "$(cat "$work/none")"
stop
echo passed
