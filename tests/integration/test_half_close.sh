#!/usr/bin/env bash
# sanitize: all
# With http.half_close a client that has closed its sending side is answered, whatever it waits for and however long its
# answer is; one that resets its connection is gone all the same. (Without: test_abandoned.sh.)
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

needs_pillow

image=models/samples/ship.jpg
model=cifar10-convnet
common=('default_model="cifar10-convnet"' 'http={"half_close": true, "request_timeout_ms": 2500}' 'timeout_ms=60000')

# client SCRIPT ARGUMENTS...: Python with what the cases below share.
client() {
  local script=$1
  shift
  "$python" - "$url" "$@" <<PYTHON || fail "see above"
import json, os, re, signal, socket, struct, sys, time, urllib.request
sys.path.insert(0, "tests/tools")
from processes import stand_still
from wire import Closed, Connection
url, image, model = sys.argv[1], open("$image", "rb").read(), "$model"

def half(method, target, body=b"", headers=(), receive_buffer=None):
    connection = Connection(url, receive_buffer)
    # The end comes with the last bytes: else an answer may be there before this program gets a processor to send it.
    connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    connection.ask(method, target, body, headers)
    connection.socket.shutdown(socket.SHUT_WR)
    return connection

def metric(name):
    return int(re.search(r"^%s (\d+)" % re.escape(name), urllib.request.urlopen(url + "/metrics").read().decode(), re.M)[1])

def wait_for(what, sentence):
    end = time.monotonic() + 20
    while not what():
        if time.monotonic() > end:
            sys.exit(sentence)
        time.sleep(0.01)

queue = "convoyd_queue_images{model=\"%s\"}" % model

def fill_the_slot(worker, headers=()):
    """A client whose image is in flight in the only slot, of a worker that stands still: those that come after it wait."""
    stand_still(worker)
    first = half("POST", "/classify?top=1", image, headers)
    wait_for(lambda: metric("convoyd_slots_in_use") == 1 and metric(queue) == 0, "the first image is not in flight")
    return first

def whole(connection, status, name=None):
    answer = connection.answer()
    assert answer.status == status, answer
    assert name in (None, answer.headers["x-request-id"]), answer.headers
    assert answer.headers["connection"] == "close", answer.headers
    assert {"date", "content-type", "x-request-id", "content-length"} <= set(answer.headers), answer.headers
    assert connection.closed_within(10) is not None, "the connection stays open"
    return answer.json()

$script
PYTHON
}

# A slot has room for two images, so the others wait for it. (The model's own max_batch goes before the daemon's.)
mkdir "$work/models"
cp -r "models/$model" "$work/models/"
sed -i 's/"max_batch": 256/"max_batch": 2/' "$work/models/$model/config.json"
echo "Images that wait for a slot, and a client that leaves beside them."
configure "${common[@]}" "models=\"$work/models\"" 'worker={"slots": 1, "streams": 1}'
start --backend null --config "$work/config.json"
client '
worker = int(sys.argv[2])
waiting = [fill_the_slot(worker, ["X-Request-Id: half-0"])]
waiting += [half("POST", "/classify?top=1", image, ["X-Request-Id: half-%d" % i]) for i in range(1, 20)]
leaving = Connection(url)
leaving.ask("POST", "/classify", image)
wait_for(lambda: metric(queue) == 20, "the images do not wait")
leaving.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
leaving.socket.close()
wait_for(lambda: metric(queue) == 19, "one that reset its connection stays, or another left")
os.kill(worker, signal.SIGCONT)
for i, connection in enumerate(waiting):
    assert len(whole(connection, 200, "half-%d" % i)["results"]) == 1
assert metric("convoyd_spared_images_total{model=\"%s\"}" % model) == 1
' "$(workers)"

echo "What is answered without waiting, errors among it."
client '
for status, method, target, body in ((200, "GET", "/v2", b""), (415, "POST", "/classify", b"no image"),
                                     (404, "POST", "/v2/models/none/classify", image)):
    answer = half(method, target, body).answer()
    assert answer.status == status, answer
'

echo "A photograph for the decode pool, a form of many images."
"$python" - "$work/photo.jpg" "$work/dot.png" <<'PYTHON'
import sys
from PIL import Image
Image.effect_noise((2000, 2000), 20).convert("RGB").save(sys.argv[1], quality=40)
Image.new("L", (1, 1)).save(sys.argv[2])
PYTHON
client '
photo = open(sys.argv[2], "rb").read()
assert len(whole(half("POST", "/classify", photo), 200)["results"]) == 1
parts = b"".join(b"--b\r\nContent-Disposition: form-data; name=\"i\"; filename=\"a\"\r\n\r\n" + image + b"\r\n" for _ in range(200))
many = whole(half("POST", "/classify", parts + b"--b--\r\n", ["Content-Type: multipart/form-data; boundary=b"]), 200)
assert len(many["results"]) == 200, many.keys()
' "$work/photo.jpg"

echo "An answer that no socket takes at once, read slowly, and not read at all."
stop
configure "${common[@]}" 'images={"max_per_request": 10000}' 'batching={"max_queue": 20000}'
start --backend null --config "$work/config.json"
client '
count = 8000
parts = b"".join(b"--b\r\nContent-Disposition: form-data; name=\"i\"\r\n\r\n" + open(sys.argv[2], "rb").read() + b"\r\n" for _ in range(count))
def ask():
    return half("POST", "/classify?top=10", parts + b"--b--\r\n", ["Content-Type: multipart/form-data; boundary=b"],
                receive_buffer=4096)
slow = ask()
answered = "convoyd_requests_total{model=\"%s\",route=\"/classify\",status=\"200\"}" % model
wait_for(lambda: answered in urllib.request.urlopen(url + "/metrics").read().decode(), "no answer")
assert slow.unread_by_client() < 3000000, "the kernel takes all of it"
document = whole(slow, 200)
assert len(document["results"]) == count and len(json.dumps(document)) > 3000000, len(document["results"])
never = ask()
wait_for(lambda: metric(answered) == 2, "no answer")
began = time.monotonic()
wait_for(lambda: metric("convoyd_connections") == 1, "a client that does not read holds its connection")
took = time.monotonic() - began
assert took > 1, "it was not given the time that it has: %f s" % took
' "$work/dot.png"
stop

echo "SIGTERM while they wait: answered, the daemon ends well."
configure "${common[@]}" "models=\"$work/models\"" 'worker={"slots": 1, "streams": 1}'
start --backend null --config "$work/config.json"
client '
daemon, worker = int(sys.argv[2]), int(sys.argv[3])
waiting = [fill_the_slot(worker)] + [half("POST", "/classify", image) for _ in range(4)]
wait_for(lambda: metric(queue) == 4, "the images do not wait")
os.kill(daemon, signal.SIGTERM)
os.kill(worker, signal.SIGCONT)
for connection in waiting:
    whole(connection, 200)
' "$daemon" "$(workers)"
status=0
wait "$daemon" || status=$?
daemon=
[ $status -eq 0 ] || fail "convoyd ended with status $status"
echo passed
