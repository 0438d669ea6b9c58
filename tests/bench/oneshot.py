#!/usr/bin/env python3
"""One process for each run beside a daemon that is up: what oneshot.sh calls.

    oneshot.py images MODELS MODEL COUNT FORM URL FOLDER
    oneshot.py compare FOLDER ROUNDS URL CONNECTIONS COMMAND...
    oneshot.py once FOLDER COMMAND...
    oneshot.py send FOLDER URL CONNECTIONS
    oneshot.py table CALLS-FILE MILLISECONDS

images writes COUNT images of MODEL's size to FOLDER twice: as 8-bit rows, and as forms of FORM PNGs each, so that both
ways see the same pixels; and what a worker is told of the model. compare measures both ways in turns and compares their
answers; COMMAND is bench_oneshot with its backend and number of streams. once and send are a run of either way, for
counting its calls; they print its milliseconds. table prints what count_calls.c wrote. Needs Pillow.
"""

import collections
import http.client
import io
import json
import os
import pathlib
import pickle
import random
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

from PIL import Image

BOUNDARY = "convoy-oneshot-boundary"
SHARE_THAT_MAY_DIFFER = 0.001  # other batches, other kernels: two level classes may change places


def draw(chance, samples, size, mode):
    """Parts of two samples, one over the other, and noise: no two images alike, and all classes among the answers."""
    parts = []
    for sample in chance.sample(samples, 2):
        left, top = (chance.randrange(edge // 4 + 1) for edge in sample.size)
        box = (left, top, left + sample.width * 3 // 4, top + sample.height * 3 // 4)
        parts.append(sample.resize(size, Image.BILINEAR, box))
    noise = Image.effect_noise(size, 60).convert(mode)
    return Image.blend(Image.blend(*parts, chance.random()), noise, chance.random() * 0.3)


def png(image):
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=1)
    return out.getvalue()


def form(images):
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="image"; filename="image.png"\r\n\r\n'.encode()
    return b"".join(head + image + b"\r\n" for image in images) + f"--{BOUNDARY}--\r\n".encode()


def values(config, key, otherwise, channels):
    value = config.get(key, otherwise)
    return value if isinstance(value, list) else [value] * channels


def write_images(models, model, count, per_form, url, folder):
    home, count, per_form = pathlib.Path(models, model), int(count), int(per_form)
    with urllib.request.urlopen(f"{url}/v2/models/{model}") as answer:
        channels, height, width = json.load(answer)["inputs"][0]["shape"][1:]
    config = json.loads((home / "config.json").read_text(encoding="utf-8"))
    pixels = config["input"]
    mode = {"rgb": "RGB", "grey": "L"}[pixels["color"]]
    where = pathlib.Path("models/samples", "fashion" if mode == "L" else "")
    samples = [Image.open(path).convert(mode) for path in sorted(where.glob("*.*g"))]
    chance = random.Random(1)
    images = [draw(chance, samples, (width, height), mode) for _ in range(count)]
    folder = pathlib.Path(folder)
    (folder / "images.raw").write_bytes(b"".join(image.tobytes() for image in images))
    pngs = [png(image) for image in images]
    forms = [form(pngs[i : i + per_form]) for i in range(0, count, per_form)]
    (folder / "forms").write_bytes(pickle.dumps(forms))
    mean, std = values(pixels, "mean", 0, channels), values(pixels, "std", 1, channels)
    scale = pixels.get("scale", 1 / 255)
    batch = config["batching"]["max_batch"]
    load = {
        "path": str(home / "1" / "model.onnx"),
        "name": model,
        "precision": config["precision"],
        "max_batch": batch,
        "multiply": [scale / s for s in std],
        "add": [-m / s for m, s in zip(mean, std)],
    }
    (folder / "load.json").write_text(json.dumps(load), encoding="utf-8")
    (folder / "model").write_text(model, encoding="utf-8")
    print(
        f"{model}: {count:,} images of {width} x {height} x {channels}, {len(pngs[0]):,} bytes as PNG; "
        f"batches of {batch} at most"
    )


def one_process(folder, command):
    """(milliseconds from before it was started until it was gone, its report, its answers)"""
    folder = pathlib.Path(folder)
    program, backend, streams = command
    load = (folder / "load.json").read_text(encoding="utf-8")
    arguments = [program, backend, load, str(folder / "images.raw"), streams, str(folder / "answers")]
    begun = time.monotonic_ns()
    environment = os.environ | {"ONESHOT_BEGUN_US": str(begun // 1000)}
    done = subprocess.run(arguments, env=environment, stdout=subprocess.PIPE, check=False)
    total = (time.monotonic_ns() - begun) / 1e6
    if done.returncode != 0:
        sys.exit(f"oneshot.py: {program} ended with {done.returncode}")
    report = json.loads(done.stdout)
    report["phases_ms"]["exit"] = total - sum(report["phases_ms"].values())
    return total, report, [int(line) for line in (folder / "answers").read_text(encoding="ascii").split()]


def send(folder, url, connections):
    """(milliseconds from before the first connection until the last answer had come, the first class of each image)"""
    folder, host = pathlib.Path(folder), urllib.parse.urlsplit(url)
    forms = pickle.loads((folder / "forms").read_bytes())
    target = f"/classify?top=1&model={(folder / 'model').read_text(encoding='utf-8')}&timeout_ms=600000"
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    answers, waiting, failed = [None] * len(forms), collections.deque(range(len(forms))), []

    def work():
        try:
            connection = http.client.HTTPConnection(host.hostname, host.port, timeout=600)
            while True:
                try:
                    i = waiting.popleft()
                except IndexError:
                    break
                connection.request("POST", target, forms[i], headers)
                response = connection.getresponse()
                answers[i] = response.status, response.read()
            connection.close()
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(min(int(connections), len(forms)))]
    begun = time.monotonic_ns()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = (time.monotonic_ns() - begun) / 1e6
    if failed:
        sys.exit(f"oneshot.py: {failed[0]}")
    firsts = []
    for status, body in answers:
        if status != 200:
            sys.exit(f"oneshot.py: status {status}: {body[:300]!r}")
        for result in json.loads(body)["results"]:
            if "predictions" not in result:
                sys.exit(f"oneshot.py: an image was not classified: {result}")
            firsts.append(result["predictions"][0]["index"])
    return total, firsts, len(forms)


def device_sums(url):
    """What the daemon's device has done so far: {"input": milliseconds, "compute": ..., "output": ..., "batches": count}"""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        text = answer.read().decode()
    sums = {}
    for stage in ("input", "compute", "output"):
        found = re.findall(rf"^convoyd_{stage}_seconds_sum\{{.*\}} (.*)$", text, re.M)
        sums[stage] = 1e3 * sum(map(float, found))
    sums["batches"] = sum(map(float, re.findall(r"^convoyd_batches_total\{.*\} (.*)$", text, re.M)))
    return sums


def spread(numbers):
    return f"{statistics.median(numbers):9.1f} ms ({min(numbers):.1f} to {max(numbers):.1f})"


def listed(times):
    return ", ".join(f"{name} {ms:.1f}" for name, ms in times.items())


def compare(folder, rounds, url, connections, *command):
    send(folder, url, connections)  # a daemon that is up has answered before
    runs, sent = [], []
    for _ in range(int(rounds)):
        runs.append(one_process(folder, command))
        before = device_sums(url)
        ms, firsts, requests = send(folder, url, connections)
        after = device_sums(url)
        sent.append((ms, firsts, requests, {stage: after[stage] - before[stage] for stage in after}))
    alone, served = [run[0] for run in runs], [run[0] for run in sent]
    report = sorted(runs, key=lambda run: run[0])[len(runs) // 2][1]
    images = report["images"]
    print(f"  one process for each run:  {spread(alone)}, median of {rounds} runs")
    print(f"    of which, in ms: {listed(report['phases_ms'])}")
    print(f"    the device in it:  {listed(report['device_ms'])}")
    print(
        f"  a daemon that is up:       {spread(served)}, median of {rounds} runs: "
        f"{sent[0][2]} requests over {connections} connections, {images / statistics.median(served) * 1e3:,.0f} images/s"
    )
    device = sorted(sent, key=lambda run: run[0])[len(sent) // 2][3]
    batches = device.pop("batches")
    print(f"    the device in it:  {listed(device)}, summed over {batches:.0f} batches")
    print(f"  ratio: {statistics.median(alone) / statistics.median(served):.2f}")
    differ = 0
    for run, answer in zip(runs, sent):
        if len(run[2]) != images or len(answer[1]) != images:
            sys.exit(f"oneshot.py: {len(run[2])} and {len(answer[1])} answers to {images} images")
        differ = max(differ, sum(a != b for a, b in zip(run[2], answer[1])))
    print(
        f"  first classes: {report['classes']}, of the first images {runs[0][2][:10]}; "
        f"answered otherwise by the daemon: {differ}"
    )
    if differ > images * SHARE_THAT_MAY_DIFFER:
        sys.exit(f"oneshot.py: {differ} of {images} images are answered differently")


def table(path, wall_ms):
    rows = []
    for line in pathlib.Path(path).read_text(encoding="ascii").splitlines():
        name, calls, us, longest = line.split()
        name = re.sub(r"(_ptsz)?(_v\d+)?$", "", name)
        rows.append((float(us) / 1e3, float(longest) / 1e3, int(calls), name))
    rows.sort(reverse=True)
    print(f"    {'call':<36}{'calls':>8}{'total ms':>12}{'longest ms':>12}")
    for total, longest, calls, name in rows[:10]:
        print(f"    {name:<36}{calls:>8}{total:>12.3f}{longest:>12.3f}")
    rest = rows[10:]
    print(f"    {f'{len(rest)} more functions':<36}{sum(r[2] for r in rest):>8}{sum(r[0] for r in rest):>12.3f}")
    total = sum(row[0] for row in rows)
    print(f"    {'all':<36}{sum(r[2] for r in rows):>8}{total:>12.3f}  of {float(wall_ms):.1f} ms with CUPTI")


def main():
    what, *rest = sys.argv[1:]
    if what == "images":
        write_images(*rest)
    elif what == "compare":
        compare(*rest)
    elif what == "once":
        print(f"{one_process(rest[0], rest[1:])[0]:.3f}")
    elif what == "send":
        print(f"{send(*rest)[0]:.3f}")
    elif what == "table":
        table(*rest)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
