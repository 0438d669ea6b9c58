#!/usr/bin/env python3
"""Takes the pictures of the page that the documents show.

    web_screenshots.py BUILD [SECONDS]    starts a convoyd on the CPU backend, sends it pictures for SECONDS (60), and writes
                                          docs/web.png (a desk), docs/web-live.png (dark), docs/web-phone.png

Needs chromium, and Pillow to make the files small."""

import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from browser import Browser
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "models/samples"


def start(build, log, *arguments):
    daemon = subprocess.Popen([build / "bin/convoyd", "--listen", "127.0.0.1:0", "--backend", "cpu", *arguments], cwd=ROOT, stderr=log)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        port = re.search(r'msg="convoyd listens".* port=(\d+)', pathlib.Path(log.name).read_text())
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port.group(1)}/v2/health/ready").close()
            return daemon, f"http://127.0.0.1:{port.group(1)}/"
        except (AttributeError, OSError):
            time.sleep(0.1)
    raise TimeoutError("convoyd was not ready within 30 s")


def load(url, ended):
    """Requests that come more often and less often."""
    picture, count = (SAMPLES / "ship.jpg").read_bytes(), random.Random(1)
    while not ended.is_set():
        wave = 1 + time.monotonic() % 20
        try:
            urllib.request.urlopen(f"{url}classify", data=picture).close()
        except OSError:
            return
        ended.wait(count.expovariate(4 * wave))


def save(page, name):
    page.picture(ROOT / "docs" / name)
    picture = Image.open(ROOT / "docs" / name).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(ROOT / "docs" / name, optimize=True)
    print(name, (ROOT / "docs" / name).stat().st_size, "bytes")


def main():
    build, seconds = pathlib.Path(sys.argv[1]).resolve(), float(sys.argv[2] if len(sys.argv) > 2 else 60)
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        daemon, url = start(build, log)
        ended = threading.Event()
        clients = [threading.Thread(target=load, args=(url, ended)) for _ in range(4)]
        try:
            with Browser() as browser:
                live = browser.page(1040, 760, dark=True)
                live.go(f"{url}#live")
                for client in clients:
                    client.start()
                desk = browser.page(1040, 1130)
                desk.go(url)
                desk.files("#choose", [SAMPLES / "ship.jpg"])
                desk.until("document.querySelector('#answer .strip')")
                desk.click(".explain button")
                desk.until("document.querySelector('.explain canvas:not([hidden])')")
                desk.value("document.activeElement.blur(), scrollTo(0, 0)")
                save(desk, "web.png")
                phone = browser.page(390, 844, phone=True)
                phone.go(url)
                phone.files("#choose", [SAMPLES / f"{name}.jpg" for name in ("ship", "truck", "airplane", "automobile")])
                phone.until("document.querySelector('#try-status').innerText === '4 pictures answered'")
                save(phone, "web-phone.png")
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    time.sleep(1)
                    live.value("1")
                save(live, "web-live.png")
        finally:
            ended.set()
            daemon.terminate()
            daemon.wait()


if __name__ == "__main__":
    main()
