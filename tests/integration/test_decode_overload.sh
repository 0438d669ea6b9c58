#!/usr/bin/env bash
# alone: what this machine decodes in time is judged, and the price of a photo is learnt
# More large images than the decoders can take: the rest is refused instead of being decoded too late, and small images,
# which need no decoder of theirs, are not made to pay for it. (Decoded in part, the photos would be no overload.)
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
needs_pillow

mkdir "$work/large"
"$python" - "$work/large/photo.jpg" <<'PYTHON'
import sys
from PIL import Image
Image.radial_gradient("L").resize((5000, 3500), Image.BILINEAR).convert("RGB").save(sys.argv[1], quality=60)
PYTHON
form=()
for ((i = 0; i < 100; i++)); do form+=(-F "image$i=@models/samples/ship.jpg"); done

start --backend null
"$python" tests/tools/load.py "$url" --rate 150 --connections 400 --renew 5 --json --seconds 12 \
  --image "$work/large/photo.jpg" --query "timeout_ms=1000&scaled_decoding=0" >"$work/load" &
load=$!
sample_all() { curl -fsS "$url/metrics" | grep '^convoyd_requests_total\|^convoyd_queue_images'; }
busy() { [ "$(sample 'convoyd_requests_total{model="cifar10-resnet",route="/classify",status="503"}')" -gt 20 ]; }
until_true 8 busy || { kill -TERM $load; wait $load || true; fail "so many photos are no overload here: $(cat "$work/load" <(sample_all))"; }

# Until the first photo is decoded their cost is unknown here, so too many may have got in.
known() { [ "$(curl -sS -o /dev/null -w '%{http_code}' "${form[@]}" "$url/classify?top=1&timeout_ms=6000")" = 200 ]; }
until_true 20 known || fail "no form is taken beside photos"

echo "Meanwhile a form of a hundred small images is taken, again and again, and one alone."
for ((i = 0; i < 8; i++)); do
  expect 200 "${form[@]}" "$url/classify?top=1&timeout_ms=6000"
  expect 200 --data-binary @models/samples/ship.jpg "$url/classify?timeout_ms=6000"
done
wait "$load" || fail "$(cat "$work/load")"
cat "$work/load"
holds() { [ "$(json "$work/load" "$1")" = True ] || fail "not so: $1: $(cat "$work/load")"; }
holds "d['statuses'].get('200', 0) > 20 and d['refused'] > 0"
# On a quiet machine a few of a hundred; without the refusals nearly all.
echo "Most of what was taken was decoded in time."
holds "d['expired'] < 0.5 * d['statuses']['200']"
stop
echo "passed"
