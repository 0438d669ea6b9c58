#!/usr/bin/env bash
# all: a browser is a download of 100 MB
# The pages of convoy bench --sweep, --compare and convoy eval in Chromium: light, dark and on a telephone, they load nothing, their policy
# has nothing to say, and their texts can be read.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
command -v chromium chromium-browser google-chrome >/dev/null || skip "there is no chromium to open a page with"

configure 'default_model="cifar10-convnet"' 'batching={"max_queue": 4}'
start --backend cpu --config "$work/config.json"
export CONVOY_URL=$url
convoy=$build/bin/convoy
# The queue is short: loads of many connections have errors.
"$convoy" bench --sweep --seconds 0.5 --connections 1,2,4,64 --report "$work/sweep.html" models/samples || [ $? = 1 ] || fail "no sweep"
"$convoy" bench --sweep --seconds 0.5 --rate 20,200,2000 --connections 8 --report "$work/open.html" models/samples || [ $? = 1 ] || fail "no sweep"
"$convoy" bench --sweep --seconds 0.2 --connections 4 --model fashion-lenet --report "$work/one.html" models/samples/fashion || [ $? = 1 ] || fail "no sweep"
"$convoy" bench --compare --report "$work/compared.html" "$work/sweep.html" "$work/one.html"
"$convoy" bench --compare --report "$work/mixed.html" "$work/sweep.html" "$work/open.html"
stop
start --backend cpu --models models
mkdir -p "$work/set/ship" "$work/set/truck"
cp models/samples/ship.jpg "$work/set/ship"
cp models/samples/truck.jpg "$work/set/truck"
cp models/samples/truck.jpg "$work/set/ship/no-ship.jpg"
CONVOY_URL=$url "$convoy" eval --model cifar10-convnet --report "$work/eval.html" "$work/set" >/dev/null
PYTHONDONTWRITEBYTECODE=1 timeout 300 "$python" tests/tools/report_pages.py "$work"/{sweep,open,one,compared,mixed,eval}.html || fail "the pages"
stop
echo passed
