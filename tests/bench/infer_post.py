#!/usr/bin/env python3
"""Posts FILE to URL every PAUSE seconds until SIGTERM: infer_post.py URL FILE PAUSE [HEADER-LENGTH]. Prints how many were
answered and their median time; exit status 1 when one was not answered 200. HEADER-LENGTH: of the JSON before binary data."""

import http.client
import signal
import statistics
import sys
import time
import urllib.parse

url = urllib.parse.urlsplit(sys.argv[1])
with open(sys.argv[2], "rb") as file:
    body = file.read()
headers = {"Inference-Header-Content-Length": sys.argv[4]} if len(sys.argv) > 4 else {}
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
connection = http.client.HTTPConnection(url.netloc, timeout=30)
times = []
while not stop:
    begun = time.monotonic()
    connection.request("POST", url.path, body, headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        sys.exit(f"{answer.status}: {text[:300]!r}")
    times.append(time.monotonic() - begun)
    time.sleep(max(0.0, float(sys.argv[3]) - times[-1]))
print(f"{len(times)} answered, median {statistics.median(times) * 1e3:.1f} ms")
