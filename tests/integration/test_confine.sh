#!/usr/bin/env bash
# What a model that took its worker over could do: a stand-in for one tries the ways out of the process (tests/faults/escape.c)
# while it is loaded. Another model is served beside it, by threads that exist before the confinement and by later ones.
# BACKEND=cuda: on a GPU, or the emulation of one, with files confined.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

backend=${BACKEND:-cpu}
if [ "$backend" = cuda ]; then
  needs_cuda
  # The emulation's libraries lie where they were built.
  [ -z "$emulated" ] || export LD_LIBRARY_PATH=${emulated%/*}
fi
others="socket local fork ptrace process_vm_readv mem pidfd kill tgkill owner prlimit descriptor io_uring unshare mount exec"
mkdir "$work/models"
cp -r models/cifar10-convnet "$work/models/good"
cp -r models/cifar10-convnet "$work/models/hostile"
export CONVOY_TEST_FAULT=escape:hostile
reason() { curl -fsS "$url/v2/models" >"$work/models.json" && json "$work/models.json" "[m.get('reason').split(': ', 1)[1] for m in d['models'] if m['name'] == 'hostile'][0]"; }
# answers MODEL: it knows the ship.
answers() {
  expect 200 --data-binary @models/samples/ship.jpg "$url/classify?model=$1"
  [ "$(json "$work/body" 'd["results"][0]["predictions"][0]["label"]')" = ship ] || fail "$1: $(cat "$work/body")"
}
user_of() { awk '/^Uid/ { print $2, $3, $4 }' "/proc/$1/status"; }

configure 'worker={"confine_files": "on"}'
echo "Confined, files, too: no way out."
start --backend "$backend" --models "$work/models" --config "$work/config.json"
if grep -q 'has no Landlock' "$work/log"; then
  echo "this kernel or container has no Landlock: files are not confined here"
  for way in $others; do [[ " $(reason), " != *" $way,"* ]] || fail "open are $(reason)"; done
else
  [ "$(reason)" = "ways out: none" ] || fail "open are $(reason)"
  grep -q 'text="confined: .*no files but its own (Landlock' "$work/log" || fail "no line says what holds"
fi
worker=$(workers)
for thread in "/proc/$worker/task/"*/status; do
  grep -q '^Seccomp:.2$' "$thread" || fail "a thread of the worker is not confined: $thread"
  grep -q '^NoNewPrivs:.1$' "$thread" || fail "a thread of the worker may gain privileges: $thread"
  [ $((0x$(awk '/^CapEff/ { print $2 }' "$thread") & ~0x4004)) = 0 ] || fail "a thread has capabilities: $(grep Cap "$thread")"
done
[ "$(find "/proc/$worker/task" -mindepth 1 -maxdepth 1 | wc -l)" -ge 2 ] || fail "the worker has one thread alone"
answers good
if grep -q 'it stays root' "$work/log"; then
  [ "$(user_of "$worker")" = "0 0 0" ] || fail "it does not stay root: $(user_of "$worker")"
elif [ "$(id -u)" = 0 ]; then
  [ "$(user_of "$worker")" = "61183 61183 61183" ] || fail "root's worker runs as $(user_of "$worker")"
fi
stop

echo "So, too, without a word in the configuration, also where the backend is chosen; not where a GPU needs other files."
for choice in "$backend" auto; do
  start --backend "$choice" --models "$work/models"
  if grep -q 'device=cuda:0' "$work/log" && { [ ! -e /dev/nvidia-uvm ] || [ ! -e /dev/nvidiactl ]; }; then
    grep -q 'any file: /dev/nvidia.* is missing' "$work/log" || fail "no line says why files are not confined: $(grep confined "$work/log")"
  else
    grep -q 'has no Landlock\|no files but its own' "$work/log" || fail "files are not confined with --backend $choice"
  fi
  answers good
  stop
done

echo "Where models come while the worker runs, links may be made that lead elsewhere: files are not confined by themselves."
configure 'model_control="poll"'
start --backend "$backend" --models "$work/models" --config "$work/config.json"
grep -q 'text="confined: .*; any file; user' "$work/log" || fail "no line says that files are not confined: $(grep confined "$work/log")"
stop

echo "Files are not confined: those ways are open, and no other."
configure 'worker={"confine_files": "off"}'
start --backend "$backend" --models "$work/models" --config "$work/config.json"
open=$(reason)
echo "$open"
for way in read shm make chmod chown utimes setxattr truncate O_TRUNC "mode 3" flags; do [[ $open == *"$way"* ]] || fail "the stand-in does not find $way: $open"; done
for way in $others; do [[ "${open/ways out:/,}," != *", $way"* ]] || fail "$way is open: $open"; done
stop

echo "Not confined: the same stand-in finds ways, so it would have found them above."
configure 'worker={"sandbox": false}'
start --backend "$backend" --models "$work/models" --config "$work/config.json"
open=$(reason)
echo "$open"
for way in socket fork pidfd kill read write; do [[ $open == *"$way"* ]] || fail "the stand-in does not find $way: $open"; done
if grep -q 'text="confined' "$work/log"; then fail "it says that it is confined"; fi
[ "$(user_of "$(workers)")" = "$(id -u) $(id -u) $(id -u)" ] || fail "the worker changed its user: $(user_of "$(workers)")"
stop
unset CONVOY_TEST_FAULT

echo "Models behind links: by an entry of the models' folder, and out of a model's own folder, which needs worker.readable."
rm -r "$work/models/hostile"
mkdir -p "$work/elsewhere" "$work/models/out/1"
mv "$work/models/good" "$work/elsewhere/entry"
ln -s "$work/elsewhere/entry" "$work/models/entry"
cp models/cifar10-convnet/1/model.onnx "$work/elsewhere/out.onnx"
cp models/cifar10-convnet/{config.json,labels.txt} "$work/models/out"
ln -s "$work/elsewhere/out.onnx" "$work/models/out/1/model.onnx"
configure 'worker={"confine_files": "on"}'
start --backend "$backend" --models "$work/models" --config "$work/config.json"
answers entry
if ! grep -q 'has no Landlock' "$work/log"; then
  grep -q 'model=out .*name its folder in worker.readable' "$work/log" || fail "no line says what to do about the link"
  expect 503 --data-binary @models/samples/ship.jpg "$url/classify?model=out"
fi
stop
"$build/bin/convoyd" --backend "$backend" --models "$work/models" --config "$work/config.json" --check-config >"$work/check" 2>&1 && ! grep -q 'no Landlock' "$work/log" && fail "--check-config does not find it"
# The folder is the last of the most that may be named.
configure "worker={\"confine_files\": \"on\", \"readable\": [$(printf '"/nonexistent/%s",' {1..15})\"$work/elsewhere\"]}"
start --backend "$backend" --models "$work/models" --config "$work/config.json"
answers out
stop

if [ "$(id -u)" = 0 ] && setpriv --reuid nobody --clear-groups true 2>/dev/null; then
  echo "Another user, and root, by name."
  for user in nobody root; do
    chmod 0755 "$work" "$work/models" # for who keeps no capability
    configure "worker={\"user\": \"$user\"}"
    start --backend "$backend" --models "$work/models" --config "$work/config.json"
    [ "$(user_of "$(workers)")" = "$(id -u $user) $(id -u $user) $(id -u $user)" ] || fail "the worker runs as $(user_of "$(workers)"), not $user"
    answers entry
    stop
  done
fi
echo "passed"
