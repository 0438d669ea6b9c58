#!/usr/bin/env bash
# tests/bench/networks.sh at work, on a GPU or the emulation of one: it measures, its errors are what they say, what fails
# is told and left out. No speed is judged, and no peer needed.
# shellcheck disable=SC2119 # start takes options of convoyd, which are not this script's
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

needs_pillow
"$python" -c 'import numpy' 2>/dev/null || skip "NumPy is missing (Debian package python3-numpy)"
[ -e "$build/bin/convoy-backend-cpu.so" ] || skip "there is no CPU backend to compare with"
tree=$build
needs_cuda
few=(--networks fashion-lenet --batches "1,2" --runs 1 --rounds 2 --seed 5 --no-peers --tune-seconds 0 --json "$work/json")
# measured CONDITION: holds for the records by (batch, precision).
measured() {
  local records="{(m['batch'], m['precision']): m for m in d['networks'][0]['measurements']}"
  [ "$(json "$work/json" "(lambda r: $1)($records)")" = True ] || fail "not so: $1: $(cat "$work/json")"
}

echo "bench_network_time answers for each row what convoyd does."
samples=(bag coat sneaker)
"$python" - "$work" "${samples[@]}" <<'PYTHON'
import json, sys, numpy
from PIL import Image
given = json.load(open("models/fashion-lenet/config.json"))["input"]
rows = []
for name in sys.argv[2:]:  # in the network's size, so that nothing is resized
    image = Image.open(f"models/samples/fashion/{name}.png").resize((28, 28), Image.BILINEAR)
    image.save(f"{sys.argv[1]}/{name}.png")
    rows.append(numpy.asarray(image, numpy.float32))
((numpy.stack(rows) * given["scale"] - given["mean"]) / given["std"]).astype(numpy.float32).tofile(f"{sys.argv[1]}/rows")
PYTHON
time_of() { "$1/bin/bench_network_time" "$2" models/fashion-lenet/1/model.onnx fp32 3 "$work/rows" "" 0; }
cp "$tree/bin/bench_network_time" "$build/bin/" 2>/dev/null || true # the same file on a GPU
printf '3 2 %s\n' "$work/cpu" | time_of "$tree" cpu >"$work/said" || fail "on the CPU: $(cat "$work/said")"
printf '3 2 %s\n' "$work/gpu" | time_of "$build" cuda >"$work/said" 2>"$work/log" || fail "$(cat "$work/said")"
# Layer by layer, at another batch: from the first to the last, each with a kernel; a GPU's pool in the convolution.
for where in "$tree cpu" "$build cuda"; do
  # shellcheck disable=SC2086 # two words
  printf '2 layers\n' | time_of $where 2>"$work/log" | tail -n 1 >"$work/layers" || fail "$(cat "$work/log")"
  json "$work/layers" "[l['name'] for l in d['layers'] if l['name'] != 'maxpool1' and l['kernel'] and l['us'] > 0] == ['conv1', 'gemm1', 'gemm2']" |
    grep -qx True || fail "layers are missing: $(cat "$work/layers")"
done
gpu=$build build=$tree
start --backend cpu
build=$gpu
for sample in "${samples[@]}"; do
  expect 200 --data-binary "@$work/$sample.png" "$url/classify?model=fashion-lenet&top=10"
  json "$work/body" '{p["index"]: p["probability"] for p in d["results"][0]["predictions"]}' >>"$work/wanted"
done
"$python" - "$work/wanted" "$work/cpu" "$work/gpu" <<'PYTHON' || fail "the answers are others"
import ast, sys, numpy
wanted = numpy.array([[row[i] for i in range(10)] for row in map(ast.literal_eval, open(sys.argv[1]))])
for file in sys.argv[2:]:
    got = numpy.exp(numpy.fromfile(file, numpy.float32).reshape(wanted.shape))
    worst = abs(got / got.sum(axis=1, keepdims=True) - wanted).max()
    assert worst < 1e-4, (file, worst)
PYTHON
stop

echo "It measures each batch in each arithmetic, in rounds, and finds them right."
PYTHON=$python tests/bench/networks.sh "$tree" "${few[@]}" >"$work/out" 2>"$work/log" || fail "$(cat "$work/out")"
measured 'sorted(r) == sorted((b, p) for b in (1, 2) for p in ("fp32", "tf32", "fp16"))'
measured 'all(len(m["rounds"]) == 2 and m["rounds"][0]["median_us"] > 0 for m in r.values())'
measured 'all(0 < m["error"] < (1e-5 if p == "fp32" else 1e-2) and m["other_first_class"] == 0 for (b, p), m in r.items())'
[ "$(grep -c '^| [12] | ours | ' "$work/out")" = 6 ] || fail "no table of six lines: $(cat "$work/out")"

echo "Errors, and other first classes, are what they are."
cat >"$work/spoilt" <<PYTHON
#!$python
"""bench_network_time whose answers are spoilt on purpose: in tf32 the greatest value of all is a quarter larger; in fp16
the values of the second row change signs."""
import subprocess, sys
import numpy

command, pipe = ["$build/bin/bench_network_time", *sys.argv[1:]], subprocess.PIPE
program = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
print(program.stdout.readline(), end="", flush=True)
for line in sys.stdin:
    program.stdin.write(line)
    program.stdin.flush()
    answer = program.stdout.readline()
    out = line.split()[2]
    rows = numpy.fromfile(out, numpy.float32).reshape(-1, 10)
    if sys.argv[3] == "tf32":
        rows[numpy.unravel_index(abs(rows).argmax(), rows.shape)] *= 1.25
    elif sys.argv[3] == "fp16" and len(rows) > 1:
        with open("$work/wanted", "w") as file:
            print(2 * abs(rows[1]).max() / abs(rows).max(), file=file)
        rows[1] *= -1
    rows.tofile(out)
    print(answer, end="", flush=True)
program.stdin.close()
sys.exit(program.wait())
PYTHON
chmod +x "$work/spoilt"
# networks PROGRAM: with it in the place of bench_network_time; exit status 1 is expected.
networks() {
  local status=0
  "$python" tests/bench/networks.py --caller . --program "$1" --cpu-program "$tree/bin/bench_network_time" \
    --worker "$tree/bin/convoy-worker" --kernels none "${few[@]}" >"$work/out" 2>"$work/log" || status=$?
  [ $status = 1 ] || fail "status $status: $(cat "$work/out")"
}
networks "$work/spoilt"
measured 'all(abs(r[b, "tf32"]["error"] - 0.25) < 1e-3 and r[b, "tf32"]["other_first_class"] in (0, 1) for b in (1, 2))'
measured "abs(r[2, 'fp16']['error'] - $(cat "$work/wanted")) < 1e-3 and r[2, 'fp16']['other_first_class'] == 1"
measured 'r[1, "fp16"]["error"] < 1e-2 and r[1, "fp16"]["other_first_class"] == 0 and r[2, "fp32"]["error"] < 1e-5'
[ "$(grep -c WRONG "$work/out")" = 3 ] || fail "not three are said to be wrong: $(cat "$work/out")"

echo "What ends is left out, with its reason; so is what the budget has no room for."
networks /bin/false
measured 'all(not m["rounds"] and "ended with status 1" in m["left_out"] for m in r.values())'
grep -q '^- left out: batch 1, ours fp32; .*bench_network_time ended with status 1' "$work/out" || fail "$(cat "$work/out")"
few+=(--budget 0.001)
networks "$work/spoilt"
grep -q 'fashion-lenet: not begun within the budget of 0.001 s' "$work/out" || fail "$(cat "$work/out")"

echo "A ratio is to the fastest of the peers that compute as exactly, and right; round by round."
PYTHONPATH=tests/bench "$python" - <<'PYTHON' || fail "the ratios are others"
import networks_report

def record(program, precision, *us, error=1e-6):
    return {"program": program, "precision": precision, "rounds": [{"median_us": one} for one in us], "error": error}

ours = record("ours", "tf32", 10, 20, 30)
records = [ours, record("A", "fp32", 40, 50, 60), record("B", "fp16", 5, 5, 5), record("C", "tf32", 70, 70, 70),
           record("D", "tf32", 1, 1, 1, error=0.5), record("E", "tf32")]
got = networks_report.ratio(ours, networks_report.best_peer(ours, records))
print(got)
assert got == "**2.50** (2.00 to 4.00), A fp32"
half = record("ours", "fp16", 10, 10, 10)
assert networks_report.ratio(half, networks_report.best_peer(half, records)) == "**0.50** (0.50 to 0.50), B fp16"
PYTHON
echo "passed"
