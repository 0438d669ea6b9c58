#!/usr/bin/env python3
"""Takes the pictures of reports that the documents show.

    report_screenshots.py BUILD DATA [SECONDS]    starts a convoyd on the CPU backend, without batching and with it, measures both for
                                                  SECONDS (5) a load, evaluates cifar10-convnet on DATA/cifar10-jpg, and writes
                                                  docs/report-bench.png, docs/report-compare.png (dark), docs/report-eval.png

Needs chromium, and Pillow to make the files small."""

import json
import pathlib
import subprocess
import sys
import tempfile

from browser import Browser
from web_screenshots import ROOT, SAMPLES, save, start


def main():
    build, data = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    seconds = sys.argv[3] if len(sys.argv) > 3 else "5"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, batch in (("alone", 1), ("batches", 256)):
            config = folder / f"{name}.json"
            config.write_text(json.dumps({"default_model": "cifar10-convnet", "models": str(ROOT / "models"), "batching": {"max_batch": batch}}))
            with open(folder / f"{name}.log", "w", encoding="utf-8") as log:
                daemon, url = start(build, log, "--config", config)
            convoy = [build / "bin/convoy", "--url", url.rstrip("/")]
            try:
                subprocess.run([*convoy, "bench", "--sweep", "--seconds", seconds, "--report", f"{name}.html", SAMPLES], cwd=folder, check=True)
                if name == "batches":
                    subprocess.run([*convoy, "eval", "--report", "eval.html", data / "cifar10-jpg/test.tar.gz"], cwd=folder, check=True,
                                   stdout=subprocess.DEVNULL)
            finally:
                daemon.terminate()
                daemon.wait()
        subprocess.run([*convoy, "bench", "--compare", "--report", "compared.html", "alone.html", "batches.html"], cwd=folder, check=True)
        with Browser() as browser:
            for name, picture, dark, top in (("batches", "bench", False, "#result"), ("compared", "compare", True, "#result"), ("eval", "eval", False, "#classes")):
                page = browser.page(900, 900, dark=dark)
                page.go((folder / f"{name}.html").as_uri())
                page.until("document.querySelectorAll('svg.chart').length >= 2")
                page.value(f"window.scrollTo(0, document.querySelector('{top}').getBoundingClientRect().top - 60)")
                save(page, f"report-{picture}.png")


if __name__ == "__main__":
    main()
