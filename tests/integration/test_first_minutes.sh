#!/usr/bin/env bash
# sanitize: both
# What someone new does wrong in the first five minutes: each message says what happened and what to do next.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

image=$PWD/models/samples/ship.jpg
convoyd=$(realpath "$build/bin/convoyd")
convoy=$(realpath "$build/bin/convoy")
cpu=$(realpath "$build/bin/convoy-backend-cpu.so")
empty=$work/empty
mkdir "$empty"

# says STATUS SENTENCE COMMAND...: the command ends with STATUS, and SENTENCE is in what it prints.
says() {
  local wanted=$1 sentence=$2 status=0
  shift 2
  timeout 20 "$@" >"$work/said" 2>&1 || status=$?
  [ $status -eq "$wanted" ] || fail "$*: status $status, expected $wanted: $(cat "$work/said")"
  grep -qF -- "$sentence" "$work/said" || fail "$* does not say: $sentence
$(cat "$work/said")"
}
in_folder() { (cd "$1" && shift && timeout 20 "$@"); }
logged() { grep -qF -- "$1" "$work/log"; }

echo "No models folder, and a folder without a model."
says 1 "convoyd: there is no models folder models in $empty: create it and put each model at models/NAME/1/model.onnx, or name another folder with --models" \
  env -C "$empty" "$convoyd"
says 1 "a file: name the folder in which models lie as NAME/VERSION/model.onnx" "$convoyd" --models README.md
mkdir "$empty/models"
says 1 "no model in $empty/models: a model is NAME/VERSION/model.onnx, e.g. resnet/1/model.onnx" "$convoyd" --models "$empty/models" --check-config
launch --models "$empty/models"
until_true 10 logged 'msg="there is no model to serve: put one at NAME/VERSION/model.onnx"' || fail "nothing is said"
stop

echo "A model in the wrong place, under a wrong name, or a file of another kind."
net=models/cifar10-resnet/1/model.onnx
mkdir -p "$work/wrong/named/1" "$work/wrong/torch/1" "$work/wrong/page/1"
cp $net "$work/wrong/resnet50.onnx"
cp $net "$work/wrong/named/1/net.onnx"
printf 'PK\003\004\000\000archive/data.pkl' >"$work/wrong/torch/1/model.onnx"
echo '<!DOCTYPE html>' >"$work/wrong/page/1/model.onnx"
says 1 "resnet50.onnx is passed over: a model lies in folders named by its name and version; move it to $work/wrong/resnet50/1/model.onnx" \
  "$convoyd" --models "$work/wrong" --check-config
for sentence in 'holds no model.onnx: if net.onnx is the model, rename it' 'no ONNX model but a zip archive, as PyTorch' \
  'no ONNX model but an HTML or XML page'; do
  grep -qF "$sentence" "$work/said" || fail "not said: $sentence: $(cat "$work/said")"
done
says 1 "models/cifar10-resnet looks like a single model: the models folder is the one above it" \
  "$convoyd" --models models/cifar10-resnet --check-config

echo "A configuration with a slip."
configured() {
  printf '%s\n' "$1" >"$work/slip.json"
  says 1 "convoyd: $work/slip.json$2" "$convoyd" --config "$work/slip.json"
}
configured '{"listn": "127.0.0.1:0"}' ": unknown key 'listn' (did you mean 'listen'?); the keys known here are listen, "
configured '{"http": {"thread": 4}}' ": unknown key 'http.thread' (did you mean 'threads'?)"
configured '{"http": {"threads": "four"}}' ': http.threads must be an integer from 0 to 1024, found "four"'
configured '{"models": "models",}' ":1:20: nothing follows this comma: ',}"
configured '# mine
{}' ":1:1: JSON has no comments"
printf '{"auth": {"keys": "%s"}}' "$work/none" >"$work/keys.json"
says 1 "convoyd: auth.keys: there is no file $work/none: make it of the lines that \`convoy key NAME ROLE\` prints" \
  "$convoyd" --config "$work/keys.json"

echo "A port that is in use, and one that the user may not have; files that the user may not read."
configure 'models="models"'
start --config "$work/config.json"
says 1 "convoyd: cannot listen on 127.0.0.1:$port: Address already in use; another program listens there: stop it, or choose another port with --listen" \
  "$convoyd" --listen "127.0.0.1:$port"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  chmod 755 "$work"
  cp -r models "$work/secret"
  other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  if [ "$(cat /proc/sys/net/ipv4/ip_unprivileged_port_start)" -gt 80 ]; then
    says 1 "127.0.0.1:80: Permission denied; ports below 1024 need CAP_NET_BIND_SERVICE: choose a higher one with --listen" \
      "${other[@]}" "$convoyd" --models "$work/secret" --listen 127.0.0.1:80
  fi
  chmod 600 "$work/secret/cifar10-resnet/1/model.onnx" "$work/keys.json"
  denied='Permission denied; this process runs as user 65534, who must be allowed to read it and to enter the folders above it'
  says 1 "convoyd: $work/keys.json: cannot be opened: $denied" "${other[@]}" "$convoyd" --config "$work/keys.json"
  says 1 "model cifar10-resnet version 1: $work/secret/cifar10-resnet/1/model.onnx cannot be opened: $denied" \
    "${other[@]}" "$convoyd" --models "$work/secret" --check-config
  chmod 700 "$work/secret"
  says 1 "convoyd: the models folder $work/secret cannot be read: $denied" "${other[@]}" "$convoyd" --models "$work/secret"
else
  echo "  (not tried as another user: that takes root)"
fi

echo "Requests: no model named, a body that is none, TLS where there is none."
says 0 'name a model with ?model=NAME (convoy: --model NAME): there is no default; the models are cifar10-convnet' curl -sS --data-binary @"$image" "$url/classify"
says 0 'send an image, with curl by --data-binary @image.jpg' curl -sS -X POST "$url/classify?model=cifar10-resnet"
says 0 'this is text, not an image' curl -sS --data-binary "$image" "$url/classify?model=cifar10-resnet"
says 4 "a server without a certificate is asked at http://" "$convoy" --url "https://127.0.0.1:$port" models
stop
if command -v openssl >/dev/null; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/key.pem" -out "$work/cert.pem" \
    -subj /CN=localhost -days 2 2>/dev/null
  configure "tls={\"certificate\": \"$work/cert.pem\", \"key\": \"$work/key.pem\"}"
  launch --config "$work/config.json"
  says 4 "one that has a certificate is asked at https://" "$convoy" --url "http://127.0.0.1:$port" models
  stop
fi
says 3 "no server answers at http://127.0.0.1:$port" "$convoy" --url "http://127.0.0.1:$port" models
says 3 "Start one with ./run.sh or convoyd, or name another with --url or CONVOY_URL." "$convoy" --url "http://127.0.0.1:$port" models
says 2 "there is no command 'clasify'; \`convoy --help\` lists them" "$convoy" clasify

echo "No folder for an admin socket."
env -u XDG_RUNTIME_DIR setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null && {
  launch_as env -u XDG_RUNTIME_DIR setpriv --reuid=65534 --regid=65534 --clear-groups "$convoyd" --models models --listen 127.0.0.1:0
  logged 'msg="there is no admin socket" reason="neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR names a folder' || fail "nothing is said"
  stop
}

echo "--help has examples that can be typed."
"$convoyd" --help >"$work/help"
grep -q '^Examples:' "$work/help" || fail "convoyd --help has no examples"
sed -n '/^Examples:/,/^$/s/^  \(convoyd [^ ].*\)/\1/p' "$work/help" | sed 's/   .*//' >"$work/examples"
[ "$(wc -l <"$work/examples")" -ge 4 ] || fail "$(cat "$work/examples")"
while read -r _ options; do
  # shellcheck disable=SC2086 # words
  says 0 "model cifar10-resnet version 1: ok" "$convoyd" $options --check-config
done <"$work/examples"
for command in "" classify models bench eval verify stats top health load unload key; do
  # shellcheck disable=SC2086 # none or one
  "$convoy" $command --help >"$work/help" || fail "convoy $command --help fails"
  grep -qE "^  ((curl|convoyd?) .*\| )?convoy ${command:-models}" "$work/help" || fail "convoy $command --help has no example: $(cat "$work/help")"
done

echo "A GPU that is asked for and cannot be had."
cp "$build/bin/convoy-worker" "$work/convoy-worker"
says 1 "the cuda backend is not installed: install the package convoyd-cuda, or build where nvcc (CUDA 13) is: there is no convoy-backend-cuda.so" \
  "$work/convoy-worker" --check "$net" --backend cuda
needs_cuda
if [ -n "$emulated" ]; then
  # no_gpu VARIABLE=VALUE SENTENCE: with auto the CPU serves, and with cuda that is an error; both say why.
  no_gpu() {
    says 1 "$2" env "$1" "$build/bin/convoy-worker" --check "$net" --backend cuda
    export "${1?}"
    launch --models models --backend cuda
    until_true 10 logged "worker cannot start and is tried again" || fail "nothing is said"
    logged "$2" || fail "not said: $2"
    stop
    cp "$cpu" "$build/bin/"
    start --models models --backend auto
    logged "text=\"no GPU is used: $2" || fail "not said: $2"
    stop
    unset "${1%%=*}"
  }
  no_gpu CONVOY_EMULATED_DRIVER=0 "NVIDIA's driver is not installed (there is no libcuda.so.1): install it until nvidia-smi lists the GPU; in a container, start it with its GPUs (docker run --gpus all)"
  no_gpu CONVOY_EMULATED_DRIVER=12040 "NVIDIA's driver is too old: it is for CUDA 12.4, and this build needs one for CUDA 13.0 or later: update the driver"
  no_gpu CONVOY_EMULATED_DEVICES=0 "the driver shows no GPU: look whether nvidia-smi -L lists one"
  export CONVOY_EMULATED_DEVICES=0
  no_gpu CUDA_VISIBLE_DEVICES=7 "the driver shows no GPU: CUDA_VISIBLE_DEVICES is '7', which selects none"
  unset CONVOY_EMULATED_DEVICES
  says 1 "which this build has no code: build with -DCONVOY_CUDA_ARCHITECTURES=" env CONVOY_EMULATED_FAULT=code:1 "$build/bin/convoy-worker" --check "$net" --backend cuda
fi
echo "passed"
