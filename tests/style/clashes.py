#!/usr/bin/env python3
"""Fails when the client and the server side (server/, engine/, kernels/) give one name to two things.

    tests/style/clashes.py

Compares what is defined in client/ with what is defined in server/, engine/ and kernels/: functions with external linkage
(C and CUDA sources), and tags of structs, unions and enums, those that one source file alone uses included. The client's
own names begin with client_, except those of the installed client/lib/convoy.h. Exit status 0 only if no name is on both
sides.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIDES = (("client",), ("server", "engine", "kernels"))
NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
TAG = re.compile(r"\b(?:struct|union|enum)\s+(?:\w+\s*\([^)]*\)+\s*)?(\w+)\s*\{")
# A definition begins at the start of a line: types, a name, parameters, and the brace.
FUNCTION = re.compile(r"^(?!static\b|typedef\b|else\b)(?:[A-Za-z_][\w]*[\s*]+(?:__attribute__\(\(.*?\)\)\s*)?)+(\w+)\s*\([^;{}]*\)\s*\{", re.M)


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def definitions(folders):
    """(kind, name) -> the first place that defines it."""
    found = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".c", ".h", ".cu", ".cuh"):
                continue
            text = DIRECTIVE.sub(blank, NOISE.sub(blank, path.read_text()))
            for kind, pattern in (("tag", TAG), ("function", FUNCTION)):
                for match in pattern.finditer(text):
                    line = text.count("\n", 0, match.start(1)) + 1
                    found.setdefault((kind, match.group(1)), f"{path.relative_to(ROOT)}:{line}")
    return found


def main():
    client, server = map(definitions, SIDES)
    both = sorted(set(client) & set(server) - {("function", "main")})
    for kind, name in both:
        print(f"{client[kind, name]}: the {kind} {name} is also defined in {server[kind, name]}", file=sys.stderr)
    print(f"{len(client)} names of the client, {len(server)} of the server, {len(both)} on both sides")
    if len(client) < 100 or len(server) < 500:
        sys.exit("too few definitions were found: this check no longer reads the sources")
    return 1 if both else 0


sys.exit(main())
