#!/usr/bin/env bash
# sanitize: yes
# A few bytes can be an image, and an image thousands of numbers: what outputs and answers take together is bounded, also
# while their clients do not take them, and is free again when the clients are gone; and so is what a compressed body asks for.
# Long answers are not written on an HTTP thread, where they would keep others waiting.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

"$python" tests/tools/pixel_model.py "$work/models/pixels" 3 224 224
configure 'timeout_ms=120000' 'worker={"hang_timeout_ms": 120000}'
start --backend null --config "$work/config.json" --models "$work/models"
# Outputs that no worker writes are memory that the machine never gave.
stand_still "$(workers)"
"$python" - "$url" "$(workers)" <<'PYTHON' || fail "see above"
import base64, gzip, json, os, re, select, signal, sys, time, urllib.request
sys.path.insert(0, "tests/tools")
from wire import Connection
url, worker = sys.argv[1], int(sys.argv[2])
png = base64.b64encode(base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==")).decode()
def ask(images, pack=False):
    body = json.dumps({"instances": [{"b64": png}] * images}).encode()
    connection = Connection(url)
    connection.ask("POST", "/v1/models/pixels:predict", gzip.compress(body) if pack else body, ["Content-Encoding: gzip"] if pack else [])
    return connection
def waiting():
    text = urllib.request.urlopen(url + "/metrics").read().decode()
    return int(re.search(r'convoyd_queue_images\{model="pixels"\} (\d+)', text)[1])
def until(what):
    end = time.monotonic() + 60
    while not what():
        if time.monotonic() > end:
            sys.exit(f"{waiting()} images wait")
        time.sleep(0.02)
def refused(images, status, word, pack=False):
    with ask(images, pack) as connection:
        answer = connection.answer()
        if answer.status != status or word not in answer.json()["error"]:
            sys.exit(f"{images} images: {answer.status} {answer.body[:300]}")
# Each image has 150,528 numbers: some 3 MB with the text that they become. 2 GiB are set aside, less an eighth for small answers.
first = ask(600)
until(lambda: waiting() > 500)
refused(600, 503, "memory")
refused(1024, 413, "several requests")
# Packed, the same images are a few hundred bytes.
refused(100, 413, "without Content-Encoding", pack=True)
# What the worker has stays until it comes back.
first.socket.close()
os.kill(worker, signal.SIGCONT)
until(lambda: waiting() == 0)
os.kill(worker, signal.SIGSTOP)
# The memory is free a moment later than the queue.
def taken():
    with ask(600) as connection:
        until(lambda: waiting() > 500 or select.select([connection.socket], [], [], 0)[0])
        return waiting() > 500
until(taken)
PYTHON
kill -CONT "$(workers)"
stop

"$python" tests/tools/pixel_model.py "$work/models/classes" 3 18 18
configure 'timeout_ms=120000' 'http={"threads": 1}'
start --backend null --config "$work/config.json" --models "$work/models"
"$python" - "$url" "$(front)" <<'PYTHON' || fail "see above"
import base64, os, sys, urllib.request
sys.path.insert(0, "tests/tools")
from wire import Connection
url, front = sys.argv[1], sys.argv[2]
png = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==")
form = b"".join(b'--b\r\nContent-Disposition: form-data; name="image"\r\n\r\n' + png + b"\r\n" for _ in range(1024)) + b"--b--\r\n"
# The processor time of each thread, without the kernel's: sending is the HTTP thread's.
def times():
    path = f"/proc/{front}/task"
    return {task: int(open(f"{path}/{task}/stat").read().rsplit(")", 1)[1].split()[11]) for task in os.listdir(path)}
def spent(before):
    return {task: time - before.get(task, 0) for task, time in times().items()}
before = times()
with Connection(url) as connection:
    while max(spent(before).values()) < 20:
        connection.ask("GET", "/v2/models/classes")
        connection.answer()
of_small = spent(before)
http = max(of_small, key=of_small.get)
before = times()
for _ in range(5):
    asked = urllib.request.Request(url + "/v2/models/classes/classify?top=972", form, {"Content-Type": "multipart/form-data; boundary=b"})
    body = urllib.request.urlopen(asked).read()
    if body.count(b'"probability"') != 1024 * 972 or not body.rstrip().endswith(b"}"):
        sys.exit(f"not the whole answer: {body[:300]}")
of_long = spent(before)
print(f"long answers: {of_long[http]} of {sum(of_long.values())} ticks on the HTTP thread")
if of_long[http] > sum(of_long.values()) / 2:
    sys.exit("they are written there")
PYTHON
stop
echo "passed"
