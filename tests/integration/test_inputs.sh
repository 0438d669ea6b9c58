#!/usr/bin/env bash
# sanitize: all
# Inputs as networks come with them: float32, float16 and uint8, N x C x H x W and N x H x W x C, open height and width, 1, 3
# and 4 channels, on twins of one network; and configurations that do not fit the network.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

needs_pillow
"$python" -c 'import numpy' 2>/dev/null || skip "NumPy is missing (Debian package python3-numpy)"
export PYTHONPATH=tests/tools PYTHONDONTWRITEBYTECODE=1
"$python" tests/tools/input_models.py "$work"

start --backend cpu --models "$work/good"
"$python" tests/tools/input_check.py "$url" || fail "see above"
stop

echo "What --check-config says."
"$build/bin/convoyd" --check-config --backend cpu --models "$work/good" >"$work/out" 2>"$work/log" || fail "$(cat "$work/out")"
# says MODEL LINE
says() {
  sed -n "/^model $1 version 1: ok\$/,/^model /p" "$work/out" | grep -xF "  $2" >/dev/null ||
    fail "$1 does not say '$2': $(cat "$work/out")"
}
says uint8-nhwc "input    'x', 3 x 12 x 10 (channels x height x width), UINT8, channels last"
says uint8-nhwc "pixels   (0 to 255) as they are"
says uint8-configured "pixels   (0 to 255) times 0.00392157, less 0.3 0.4 0.5, divided by 0.2 0.25 0.3"
says fp16 "input    'x', 3 x 12 x 10 (channels x height x width), FP16"
says open "input    'x', 3 x 12 x 10 (channels x height x width)"
says bgra "pictures blue, green, red, alpha, stretched to 10 x 12 (width x height), bilinear"

echo "Wrong configurations, at the start and by --check-config."
"$python" -c 'import input_models as m
for name, (_, _, words) in m.refused().items(): print(f"{name}\t{words}")' >"$work/refused"
[ -s "$work/refused" ] || fail "no networks that must be refused"
"$build/bin/convoyd" --check-config --backend cpu --models "$work/bad" >"$work/out" 2>"$work/log" &&
  fail "networks that must be refused pass: $(cat "$work/out")"
cp -r "$work/good/nchw" "$work/bad"
start --backend cpu --models "$work/bad"
expect 200 "$url/v2/models"
cp "$work/body" "$work/models"
while IFS=$'\t' read -r name words; do
  grep -F "model $name version 1:" "$work/out" | grep -F "$words" >/dev/null ||
    fail "--check-config, $name: '$(grep -F "model $name version 1:" "$work/out")' lacks '$words'"
  said=$(json "$work/models" "[m['reason'] for m in d['models'] if m['name'] == '$name' and m['state'] == 'FAILED'][0]") ||
    fail "$name is served"
  case $said in
    *"$words"*) ;;
    *) fail "$name: '$said' lacks '$words'" ;;
  esac
done <"$work/refused"
stop
echo "passed"
