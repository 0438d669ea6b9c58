#!/usr/bin/env bash
# convoy verify: what it says and its exit status for a server that answers as recorded, one that does not, and records that
# are damaged or hostile. The record is made here, of a model that ships; test_from_pytorch.sh makes one with ONNX Runtime.
# sanitize: all
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

convoy=$build/bin/convoy
unset CONVOY_URL
# run STATUS ARGUMENT...: convoy verify; its output lands in $work/out, what it says of errors in $work/err.
run() {
  local wanted=$1 got=0
  shift
  "$convoy" verify --models "$work/models" "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$wanted" ] || fail "convoy verify $*: exit status $got, expected $wanted: $(cat "$work/out" "$work/err")"
}
out() { grep -qE -e "$1" "$work/out" || fail "the output lacks '$1': $(cat "$work/out")"; }
err() { grep -q -e "$1" "$work/err" || fail "the error lacks '$1': $(cat "$work/err")"; }
# changed EXPRESSION: the record d with one change, in place of the record.
changed() {
  "$python" -S - "$work/record" "$work/models/cifar10-convnet/verify.json" "$1" <<'PYTHON'
import json, sys
d = json.load(open(sys.argv[1]))
exec(sys.argv[3])
json.dump(d, open(sys.argv[2], "w"))
PYTHON
}

mkdir "$work/models"
cp -r models/cifar10-convnet "$work/models/"
cp models/samples/ship.jpg "$work/models/cifar10-convnet/picture"
start --backend cpu --models "$work/models"
"$python" -S - "$url" "$work/models/cifar10-convnet" "$work/record" <<'PYTHON' || fail "see above"
import base64, json, sys, urllib.request
url, folder, record = sys.argv[1:]
image = open(folder + "/picture", "rb").read()
def post(path, body):
    return json.load(urllib.request.urlopen(url + path, body))
metadata = json.load(urllib.request.urlopen(url + "/v2/models/cifar10-convnet"))
name = metadata["inputs"][0]["name"]
body = {"inputs": [{"name": name, "datatype": "BYTES", "shape": [1], "data": [base64.b64encode(image).decode()]}]}
answer = post("/v2/models/cifar10-convnet/infer", json.dumps(body).encode())
classes = post("/v2/models/cifar10-convnet/classify?top=3", image)["results"][0]["predictions"]
json.dump({"image": "picture", "input": name, "version": "1", "tolerance": 0.01, "probability_tolerance": 0.02,
           "outputs": [{"name": each["name"], "values": each["data"]} for each in answer["outputs"]],
           "classes": classes}, open(record, "w"))
PYTHON
# From here on the server is the environment's.
export CONVOY_URL=$url

echo "As recorded."
changed ''
run 0 cifar10-convnet
out '^cifar10-convnet version 1 answers as recorded$'
out "^  largest difference: output '[a-z]*', element [0-9]+: .* of the largest value, 0.01 is allowed$"
[ "$(grep -c '^  class ' "$work/out")" = 3 ] || fail "not three classes: $(cat "$work/out")"
grep -q differs "$work/out" && fail "$(cat "$work/out")"
run 0 --json --model cifar10-convnet
[ "$(json "$work/out" 'd["agrees"] and d["difference"] < 1e-6 and d["model"] == "cifar10-convnet" and all(c["agrees"] for c in d["classes"])')" = True ] ||
  fail "$(cat "$work/out")"
run 0 --version 1 cifar10-convnet
changed 'del d["classes"]'
run 0 cifar10-convnet
changed 'd["classes"].reverse()' # neighbours in rank may have changed places
run 0 cifar10-convnet

echo "Not as recorded."
changed 'v = d["outputs"][0]["values"]; v[7] += 0.05 * max(map(abs, v))'
run 1 cifar10-convnet
out '^cifar10-convnet version 1 answers otherwise than recorded$'
out "element 7: "
run 0 --tolerance 0.06 cifar10-convnet
run 1 --tolerance 0.03 --json cifar10-convnet
[ "$(json "$work/out" 'not d["agrees"] and d["element"] == 7 and 0.04 < d["difference"] < 0.06 and d["tolerance"] == 0.03')" = True ] ||
  fail "$(cat "$work/out")"
changed 'd["classes"][1]["label"] = "sheep"'
run 1 cifar10-convnet
[ "$(grep -c 'recorded sheep .*: differs$' "$work/out")" = 1 ] || fail "$(cat "$work/out")"
changed 'd["classes"][1]["probability"] += 0.03'
run 1 cifar10-convnet
[ "$(grep -c 'differs$' "$work/out")" = 1 ] || fail "$(cat "$work/out")"
changed 'd["classes"][0]["index"] = 10'
run 1 cifar10-convnet
out 'class 10 is not among the first'
changed 'd["outputs"][0]["values"].append(1)'
run 1 cifar10-convnet
err '10 values, 11 are recorded'
changed 'd["outputs"][0]["name"] = "else"'
run 1 cifar10-convnet
err "lacks the output 'else'"
changed ''
sed -i 's/"mean": \[/"mean": [0.2 , /; s/, 0.4465\]/]/' "$work/models/cifar10-convnet/config.json"
grep -q '0.2 ,' "$work/models/cifar10-convnet/config.json" || fail "the configuration is not what was expected"
stop
start --backend cpu --models "$work/models"
export CONVOY_URL=$url
run 1 cifar10-convnet # prepared otherwise

echo "Records that are damaged or hostile, and what is not there."
changed 'd["image"] = "../../record"'
run 1 cifar10-convnet
err 'verify.json.*its image is no file of its folder'
changed 'd["image"] = "none"'
run 1 cifar10-convnet
err "cifar10-convnet/none' cannot be opened"
changed 'd["outputs"] = [{"name": "\x1b[31m", "values": [1]}]'
run 1 cifar10-convnet
grep -q $'\x1b' "$work/err" && fail "a record reaches the terminal as it is"
head -c 100 "$work/record" >"$work/models/cifar10-convnet/verify.json"
run 1 cifar10-convnet
err 'is no JSON object'
rm "$work/models/cifar10-convnet/verify.json"
run 1 cifar10-convnet
err 'there is no record .*cifar10-convnet/verify.json: models/from_pytorch.py writes one'
changed 'd["version"] = "2"'
run 4 cifar10-convnet
err 'status 404'
changed 'd["input"] = "else"'
run 4 cifar10-convnet
err 'status 400'
changed ''
cp "$work/log" "$work/models/cifar10-convnet/picture"
run 4 cifar10-convnet
err 'status 415'
run 2
err 'name a model'
run 2 cifar10-convnet --tolerance -1
run 2 "$work/models/cifar10-convnet"
stop
run 3 cifar10-convnet
