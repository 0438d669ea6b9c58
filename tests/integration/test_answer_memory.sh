#!/usr/bin/env bash
# sanitize: yes
# A few bytes can be an image, and an image thousands of numbers: what outputs and answers take together is bounded, also
# while their clients do not take them, and is free again when the clients are gone; and so is what a compressed body asks for.
# Long answers are not written on an HTTP thread, where they would keep others waiting.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

"$python" tests/tools/pixel_model.py "$work/models/pixels" 3 224 224
# Almost all images wait: two slots of an image each.
configure 'timeout_ms=120000' 'worker={"hang_timeout_ms": 120000, "slots": 2, "streams": 1}' 'batching={"max_batch": 1}'
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
    text = urllib.request.urlopen(url + "/metrics", timeout=60).read().decode()
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
# Each image has 150,528 numbers: some 3 MB with the text that they become. 2 GiB are set aside, less an eighth for small answers,
# of which one request has an eighth: 85 images are 255 MB.
several = [ask(85) for _ in range(7)]
until(lambda: waiting() >= 7 * 85 - 2)
refused(85, 503, "memory")
refused(100, 413, "several requests")
# Packed, the same images are a few hundred bytes.
refused(80, 413, "without Content-Encoding", pack=True)
# What the worker has stays until it comes back.
for connection in several:
    connection.socket.close()
os.kill(worker, signal.SIGCONT)
until(lambda: waiting() == 0)
os.kill(worker, signal.SIGSTOP)
# The memory is free a moment later than the queue.
def taken():
    with ask(85) as connection:
        until(lambda: waiting() > 80 or select.select([connection.socket], [], [], 0)[0])
        return waiting() > 80
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
# The processor time of threads by name, without the kernel's: sending is the HTTP thread's.
def times():
    by_name = {}
    for task in os.listdir(f"/proc/{front}/task"):
        try:
            with open(f"/proc/{front}/task/{task}/stat") as stat:
                name, fields = stat.read().split("(", 1)[1].rsplit(")", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread that has ended
        by_name[name] = by_name.get(name, 0) + int(fields.split()[11])
    return by_name
before = times()
for _ in range(5):
    asked = urllib.request.Request(url + "/v2/models/classes/classify?top=972", form, {"Content-Type": "multipart/form-data; boundary=b"})
    body = urllib.request.urlopen(asked, timeout=120).read()
    if body.count(b'"probability"') != 1024 * 972 or not body.rstrip().endswith(b"}"):
        sys.exit(f"not the whole answer: {body[:300]}")
spent = {name: ticks - before.get(name, 0) for name, ticks in times().items()}
print(f"long answers: {spent['convoyd-http']} of {sum(spent.values())} ticks on the HTTP thread")
if spent["convoyd-http"] > sum(spent.values()) / 2:
    sys.exit("they are written there")
PYTHON
stop

# A client that leaves while its answer waits to be written is spared that. On one core one thread writes, which stands still.
"$python" tests/tools/pixel_model.py "$work/models/wide" 3 150 150
taskset -cp "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)" $$ >/dev/null
start --backend null --config "$work/config.json" --models "$work/models"
"$python" - "$url" "$(front)" <<'PYTHON' || fail "see above"
import base64, json, os, re, subprocess, sys, time, urllib.request
sys.path.insert(0, "tests/tools")
from wire import Connection
url, front = sys.argv[1], sys.argv[2]
def name(task):
    with open(f"/proc/{front}/task/{task}/comm") as comm:
        return comm.read().strip()
writers = [task for task in os.listdir(f"/proc/{front}/task") if name(task) == "convoyd-decode"]
if len(writers) != 1:
    sys.exit(f"{len(writers)} threads write")
def count(pattern):
    return sum(map(int, re.findall(pattern + r" (\d+)", urllib.request.urlopen(url + "/metrics", timeout=60).read().decode())))
def until(what):
    end = time.monotonic() + 60
    while not what():
        if time.monotonic() > end:
            sys.exit(f"{count(IMAGES)} images, {count(GONE)} clients are gone")
        time.sleep(0.02)
def asked(count_of, target, body):
    clients = [Connection(url) for _ in range(count_of)]
    for client in clients:
        client.ask("POST", target, body)
    return clients
IMAGES, GONE = r'convoyd_images_total\{model="wide"\}', r'convoyd_requests_total\{.*status="499"\}'
png = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==")
predict = json.dumps({"instances": [{"b64": base64.b64encode(png).decode()}]}).encode()
for target, body in ("/v2/models/wide/classify?top=1000", png), ("/v1/models/wide:predict", predict):
    stopper = subprocess.Popen([sys.executable, "tests/tools/stop_thread.py", writers[0]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if not stopper.stdout.readline():
        print("left out: clients that leave while their long answer waits, as ptrace(2) is not allowed")
        break
    computed, gone = count(IMAGES), count(GONE)
    leaving, staying = asked(4, target, body), asked(1, target, body)[0]
    until(lambda: count(IMAGES) == computed + 5)
    for client in leaving:
        client.socket.close()
    until(lambda: count(GONE) == gone + 4)
    stopper.communicate("")
    answer = staying.answer()
    if answer.status != 200 or len(answer.json()) == 0:
        sys.exit(f"{target}: {answer.status} {answer.body[:300]} for the client that stayed")
PYTHON
stop
echo "passed"
