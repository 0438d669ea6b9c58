#!/usr/bin/env python3
"""Sends the images of a tar archive to a running convoyd and counts the right answers.

    classify_archive.py URL ARCHIVE [--model NAME] [--batch N] [--below N] [--out FILE]

The archive holds .../CLASS/NUMBER.jpg (or .png); the class, a label or its index, is what the answer should put first.
--batch 1 (the default) sends each image as a body of its own, --batch N sends N in one multipart/form-data. --below N
takes the images numbered below N alone. FILE gets "path index" lines, in the archive's order: what was answered first.
Prints one JSON line: {"images": ..., "right": ...}. Exit status 1 when an image got no prediction.

Python's standard library only.
"""

import argparse
import concurrent.futures
import http.client
import json
import pathlib
import sys
import tarfile
import threading
import urllib.parse

BOUNDARY = "convoy-archive-boundary"
THREADS = 8
local = threading.local()


def read_archive(path, below):
    """[(name, bytes)] of the archive's images."""
    images = []
    with tarfile.open(path) as archive:
        for member in archive:
            name = pathlib.PurePath(member.name)
            if member.isfile() and name.suffix in (".jpg", ".png") and int(name.stem) < below:
                images.append((member.name, archive.extractfile(member).read()))
    return images


def form(images):
    parts = bytearray()
    for name, data in images:
        parts += (
            f"--{BOUNDARY}\r\nContent-Disposition: form-data; "
            f'name="image"; filename="{pathlib.PurePath(name).name}"\r\n\r\n'
        ).encode()
        parts += data + b"\r\n"
    return bytes(parts) + f"--{BOUNDARY}--\r\n".encode()


def post(url, target, images, batch):
    """The results of one request; a thread keeps its connection."""
    if not hasattr(local, "connection"):
        local.connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    if batch == 1:
        body, headers = images[0][1], {"Content-Type": "application/octet-stream"}
    else:
        body, headers = form(images), {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    local.connection.request("POST", target, body, headers)
    response = local.connection.getresponse()
    answer = response.read()
    if response.status != 200:
        raise SystemExit(f"status {response.status} for {images[0][0]}: {answer[:200]!r}")
    results = json.loads(answer)["results"]
    if len(results) != len(images):
        raise SystemExit(f"{len(results)} results for {len(images)} images")
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("archive")
    parser.add_argument("--model")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--below", type=int, default=1 << 30)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    url = urllib.parse.urlsplit(arguments.url)
    target = "/classify?top=1&timeout_ms=60000" + (f"&model={arguments.model}" if arguments.model else "")
    images = read_archive(arguments.archive, arguments.below)
    groups = [images[i : i + arguments.batch] for i in range(0, len(images), arguments.batch)]
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        answers = pool.map(lambda group: post(url, target, group, arguments.batch), groups)
        results = [result for group in answers for result in group]
    bad = [(name, r) for (name, _), r in zip(images, results) if "predictions" not in r]
    if bad:
        print(f"{len(bad)} images got no prediction, first {bad[0]}", file=sys.stderr)
        return 1
    firsts = [result["predictions"][0] for result in results]
    right = sum(
        pathlib.PurePath(name).parent.name in (first["label"], str(first["index"]))
        for (name, _), first in zip(images, firsts)
    )
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as out:
            for (name, _), first in zip(images, firsts):
                out.write(f"{name} {first['index']}\n")
    print(json.dumps({"images": len(images), "right": right}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
