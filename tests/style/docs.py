#!/usr/bin/env python3
"""Checks the documents against the tree, and the words of documents and comments.

    tests/style/docs.py    fails with a line for each
      - link of a document to a file or heading that does not exist,
      - file of the project that a document or a comment names in `backquotes` or as room/file.c and that does not exist,
      - table cell of a document longer than 125 characters,
      - word of documents and of the product's sources that strangers stumble over (WORDS).

docs/history keeps what was tried: it may name files that are gone. Exit status 0 only if nothing is wrong.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOORS = "client|cmake|config|engine|kernels|packaging|server|systemd|tests|docs"
WORDS = re.compile(r"\b(anew|whoever|whomever|nobody|somebody)\b", re.I)
PATH = re.compile(rf"(?<![\w./<-])((?:{FLOORS})/[\w./-]*\.(?:c|h|cu|cuh|cc|py|sh|txt|md|json|proto|yml|yaml|service|socket|svg|png))\b(?!\.\d)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CELL = 125
SOURCES = (".c", ".h", ".cu", ".cuh", ".cc", ".sh", ".py", ".txt", ".md")


def files():
    """What git tracks, or, outside a checkout, every file but builds."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.splitlines()]
    return [path for path in ROOT.rglob("*") if path.is_file() and not any(
        part.startswith(("build", ".")) for part in path.relative_to(ROOT).parts)]


def anchors(path):
    """The headings of a document as GitHub spells their anchors."""
    found = set()
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            title = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            found.add(title.replace(" ", "-"))
    return found


def main():
    wrong = []
    for path in files():
        if path.suffix not in SOURCES or not path.is_file() or path == pathlib.Path(__file__).resolve():
            continue
        name = str(path.relative_to(ROOT))
        history = name.startswith("docs/history/")
        document = path.suffix == ".md"
        if name.startswith(("models/samples", "tests/fuzz/corpus", "tests/data")):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            where = f"{name}:{number}"
            if not history:
                for word in () if name.startswith("tests/") and not document else WORDS.findall(line):
                    wrong.append(f"{where}: '{word}': name the subject, or use the common word")
                for other in PATH.findall(line):
                    if "NAME" in other:
                        continue  # a placeholder
                    if not (ROOT / other).exists() and not (ROOT / "build" / other).exists():
                        wrong.append(f"{where}: there is no {other}")
            if not document:
                continue
            for link in LINK.findall(line):
                target, _, anchor = link.partition("#")
                if re.match(r"[a-z]+:", link):
                    continue
                other = (path.parent / target).resolve() if target else path
                if not other.exists():
                    wrong.append(f"{where}: the link {link} leads nowhere")
                elif anchor and other.suffix == ".md" and anchor not in anchors(other):
                    wrong.append(f"{where}: {target or name} has no heading #{anchor}")
            if line.startswith("|") and not history:
                for cell in line.strip().strip("|").split("|"):
                    if len(cell.strip()) > CELL:
                        wrong.append(f"{where}: a table cell of {len(cell.strip())} characters, at most {CELL}")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main())
