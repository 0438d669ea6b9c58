#!/usr/bin/env bash
# sanitize: all
# Shapes of outputs as the model declares them: in its metadata, its configuration and in answers.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

models=$work/models
mkdir -p "$models"/{pooled,planes,flat,split}/1
PYTHONPATH=tests/tools PYTHONDONTWRITEBYTECODE=1 "$python" - "$models" <<'PYTHON'
import pathlib, struct, sys
from hostile_models import model, node
from protobuf import number, text
folder = pathlib.Path(sys.argv[1])
for name, operator in {"pooled": "GlobalAveragePool", "planes": "Relu", "flat": "Flatten"}.items():
    (folder / name / "1/model.onnx").write_bytes(model([node(operator, "only", ["x"], ["y"])]))
# Three rows of 64 for each image: an int64 tensor with the new shape.
rows = number(1, 2) + number(2, 7) + text(8, "rows") + text(9, struct.pack("<2q", -1, 64))
(folder / "split/1/model.onnx").write_bytes(model([node("Reshape", "only", ["x", "rows"], ["y"])], [rows]))
PYTHON
# The models' input is [N,3,8,8].
"$python" -c 'import json; print(json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 3, 8, 8], "data": [n % 7 for n in range(384)]}]}))' \
  >"$work/request"
check() { # BACKEND
  start --models "$models" --backend "$1"
  while read -r name dims; do
    expect 200 "$url/v2/models/$name"
    [ "$(json "$work/body" 'd["outputs"][0]["shape"]')" = "[-1, $dims]" ] || fail "$1, $name: $(cat "$work/body")"
    expect 200 "$url/v2/models/$name/config"
    [ "$(json "$work/body" 'd["output"][0]["dims"]')" = "[$dims]" ] || fail "$1, $name: $(cat "$work/body")"
    expect 200 --data-binary "@$work/request" "$url/v2/models/$name/infer"
    [ "$(json "$work/body" 'd["outputs"][0]["shape"]')" = "[2, $dims]" ] || fail "$1, $name: $(head -c 300 "$work/body")"
    [ "$(json "$work/body" 'eval("*".join(map(str, d["outputs"][0]["shape"]))) == len(d["outputs"][0]["data"])')" = True ] ||
      fail "$1, $name: more or less data than the shape: $(head -c 300 "$work/body")"
  done <<'END'
pooled 3, 1, 1
planes 3, 8, 8
flat 192
split 3, 64
END
  stop
}
check null
check cpu
echo "passed"
