#!/usr/bin/env bash
# The manifests in config/kubernetes: Kubernetes' own schemas (kubernetes-validate from PyPI), KServe's own models, and
# what no schema sees: ports, probes, drain times, rights, and that a convoyd takes the configuration and answers the probes.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/pypi.sh
. "$(dirname "$0")/pypi.sh"

venv=build/venv-kubernetes
folder=config/kubernetes
have_tools() { "$venv/bin/python" -c 'import kubernetes_validate, importlib.metadata as m; m.version("kserve")' 2>/dev/null; }
# kserve's dependencies are half a gigabyte; only its tables are read.
install_tools() { from_pypi "$venv" kubernetes-validate && from_pypi "$venv" --no-deps kserve; }
have_tools || { install_tools && have_tools; } >"$work/pip" 2>&1 ||
  skip "kubernetes-validate or kserve cannot be installed here: $(tail -n 1 "$work/pip")"

for variant in base gpu; do
  echo "$variant"
  "$venv/bin/python" tests/tools/render_kustomization.py $folder/$variant >"$work/$variant.yaml" || fail "$variant"
  "$venv/bin/python" tests/tools/kubernetes_check.py schemas "$work/$variant.yaml" || fail "see above"
  "$venv/bin/python" tests/tools/kubernetes_check.py sense "$work/$variant.yaml" || fail "see above"
  if command -v kubectl >/dev/null; then
    echo "kubectl kustomize renders the same"
    kubectl kustomize $folder/$variant >"$work/kustomized.yaml" || fail "kubectl kustomize"
    "$venv/bin/python" tests/tools/kubernetes_check.py same "$work/$variant.yaml" "$work/kustomized.yaml" || fail "see above"
  fi
  "$venv/bin/python" tests/tools/kubernetes_check.py config "$work/$variant.yaml" >"$work/$variant.json"
  "$build/bin/convoyd" --config "$work/$variant.json" --models models --backend cpu --check-config >"$work/check" ||
    fail "convoyd does not take $variant's convoyd.json: $(cat "$work/check")"
done

echo "KServe"
"$venv/bin/python" tests/tools/kserve_check.py $folder/kserve/servingruntime.yaml $folder/kserve/inferenceservice.yaml ||
  fail "see above"

echo "What is probed is answered, what scales is measured."
start --backend cpu --health-listen 127.0.0.1:0
health=http://127.0.0.1:$(sed -n 's/.*msg="health and metrics are answered".* port=\([0-9]*\).*/\1/p' "$work/log")
for path in $("$venv/bin/python" tests/tools/kubernetes_check.py probes "$work/base.yaml"); do
  expect 200 "$health$path"
done
"$venv/bin/python" tests/tools/kubernetes_check.py adapter $folder/prometheus-adapter.yaml >"$work/adapter.yml" || fail "see above"
metrics=$("$venv/bin/python" tests/tools/kubernetes_check.py metrics "$work/base.yaml")
[ -n "$metrics" ] || fail "the autoscaler asks for no metric of pods"
for metric in $metrics; do
  series=$(sed -n "s/.*name: {matches: \([a-z_]*\), as: $metric}.*/\1/p" $folder/prometheus-adapter.yaml)
  [ -n "$series" ] || fail "prometheus-adapter does not bring $metric"
  expect 200 "$url/metrics"
  grep -q "^$series{model=\"cifar10-convnet\"" "$work/body" || fail "there is no metric $series to scale on"
done
# What KServe's clients send: a tensor in JSON, without parameters.
"$python" -c 'import json; print(json.dumps({"inputs": [{"name": "image", "shape": [1, 3, 32, 32], "datatype": "FP32", "data": [0.0] * 3072}]}))' >"$work/tensor"
expect 200 -d "@$work/tensor" "$url/v2/models/cifar10-convnet/infer"
[ "$(json "$work/body" "d['outputs'][0]['shape']")" = "[1, 10]" ] || fail "$(cat "$work/body")"
stop
command -v promtool >/dev/null || skip "there is no promtool (package prometheus) to ask about prometheus-adapter.yaml; the rest passed"
promtool check rules "$work/adapter.yml" >"$work/promtool" 2>&1 || fail "prometheus-adapter.yaml: $(cat "$work/promtool")"
echo "passed"
