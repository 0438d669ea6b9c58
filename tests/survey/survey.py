#!/usr/bin/env python3
"""Exports classifiers of torchvision, timm, transformers and Keras, has a convoyd serve each, and compares its answers with ONNX Runtime's.
run.sh calls it and makes the Python that it needs; README.md tells more."""

import argparse
import collections
import fnmatch
import json
import multiprocessing
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy
import survey_child
import survey_server
import survey_sources

HERE = pathlib.Path(__file__).resolve().parent
EXPORTERS = survey_sources.EXPORTERS
LIMIT = 1e-4  # max|y - y'| / max|y'|
PEER_TIMES = 10  # or so often what ONNX Runtime differs from itself
QUANTIZED_PEER_TIMES = 2  # where it differs much
WEAK_SPREAD = 1e-2
MODEL = "surveyed"
STATES = ("wrong", "died", "refused", "not exported", "served")


def options_of():
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__)
    add = parser.add_argument
    add("patterns", nargs="*", help="of SOURCE:NAME, e.g. 'timm:vit_*', 'keras:*' (default: one of each family of timm, all of torchvision)")
    add("--build", default="build", help="the folder above bin/convoyd (default build)")
    add("--backend", default="cpu", choices=["cpu", "cuda"], help="which backend answers (default cpu)")
    add("--exporters", default="", help=f"of {', '.join(EXPORTERS)} (default: the source's usual ones)")
    add("--work", default="build/survey", help="results.json, exported files, logs (default build/survey)")
    add("--limit", type=int, default=0, metavar="N", help="stop after N networks that were tried")
    add("--seconds", type=float, default=600, metavar="S", help="for an export, and for an answer (default 600)")
    add("--budget", type=float, default=0, metavar="S", help="begin nothing after so many seconds")
    add("--seed", type=int, default=1, help="of weights and images (default 1)")
    add("--again", default="", metavar="STATES", help=f"try once more what is any of {', '.join(STATES)}; or all")
    add("--keep", action="store_true", help="keep exported files, for the next run")
    add("--failures", metavar="FILE", help="what is wrong or refused, with its operators, written after each network")
    add("--list", action="store_true", help="only say what would be tried")
    options = parser.parse_args()
    options.exporters = [word for word in options.exporters.split(",") if word]
    options.again = STATES if options.again == "all" else [state for state in options.again.split(",") if state]
    for word in options.exporters:
        if word not in EXPORTERS:
            parser.error(f"--exporters: '{word}' is none of {', '.join(EXPORTERS)}")
    for word in options.again:
        if word not in STATES:
            parser.error(f"--again: '{word}' is none of {', '.join(STATES)}")
    return options


def write(path, text):
    """So that a reader finds the old text or the new one."""
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.rename(path)


def counted(work):
    """{"SOURCE:NAME": {"family", "parameters", "side"}} of the sources whose parameters are counted once, before."""
    catalogue = work / "catalogue.json"
    if not catalogue.exists():
        print("survey: counting the parameters of all networks, once", file=sys.stderr, flush=True)
        with open(work / "catalogue.log", "w", encoding="utf-8") as log:
            subprocess.run([sys.executable, HERE / "survey_names.py", catalogue], check=True, stderr=log)
    return json.loads(catalogue.read_text(encoding="utf-8"))


def names_of(options, work):
    """(names in the order in which they are tried, {name: {"family", ...}})"""
    found, sources = {}, survey_sources.asked_for(options.patterns)
    for source in sources:
        if source not in survey_sources.COUNTED:
            names = [f"{source}:{name}" for name in survey_sources.module_of(source).names()]
            found.update({name: {"family": name, "parameters": 0, "side": 0} for name in names})
    if any(source in survey_sources.COUNTED for source in sources):
        found.update(counted(work))
    if not options.patterns:
        import survey_names

        return survey_names.chosen(found), found
    order = sorted(found, key=lambda name: found[name]["side"] ** 2 * found[name]["parameters"])
    return [name for name in order if any(fnmatch.fnmatchcase(name, each) for each in options.patterns)], found


def prepared(options, name, exporter, folder):
    """What survey_child.prepare() returns, from a process of its own or from an earlier run's files."""
    kept = folder / "about.json"
    if kept.exists():
        return json.loads(kept.read_text(encoding="utf-8"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ours, theirs = multiprocessing.Pipe(duplex=False)
    begun = time.monotonic()
    arguments = (theirs, name, exporter, options.seed, folder, folder.parent / "export.log")
    child = multiprocessing.Process(target=survey_child.run, args=arguments)
    child.start()
    theirs.close()
    answer = {"failed": f"it took longer than {options.seconds:g} s"}
    try:
        if ours.poll(options.seconds):
            answer = ours.recv()
    except EOFError:
        answer = {"failed": "the process that exports it died"}
    finally:
        child.kill()
        child.join()
    answer.setdefault("about", {})["export_s"] = round(time.monotonic() - begun, 1)
    if "failed" in answer:
        return answer
    write(kept, json.dumps(answer) + "\n")
    return answer


def compared(daemon, folder, about):
    """Loads, asks, unloads. Fills about with the errors. Returns (state, sentence)."""
    place = daemon.models / MODEL
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    if "input" in about:
        write(place / "config.json", json.dumps({"input": about["input"]}))
    (folder / "1").rename(place / "1")
    begun = time.monotonic()
    try:
        daemon.load(MODEL)
        about["load_s"] = round(time.monotonic() - begun, 2)
        with numpy.load(folder / "answers.npz") as file:
            wanted = {key[4:]: file[key] for key in file if key.startswith("out:")}
            begun = time.monotonic()
            got = daemon.infer(MODEL, about["input_name"], file["image"])
        about["infer_s"] = round(time.monotonic() - begun, 2)
        daemon.unload(MODEL)
    except survey_server.Refused as refusal:
        return "refused", str(refusal).rpartition(f"/{MODEL}/1/model.onnx: ")[2]
    except survey_server.Died as death:
        daemon.stop()
        return "died", str(death)
    finally:
        (place / "1").rename(folder / "1")
    if got.keys() != wanted.keys():
        return "wrong", f"the outputs are {', '.join(got)}, not {', '.join(wanted)}"
    about["error"] = survey_child.difference(list(got.values()), [wanted[key] for key in got])
    about["allowed"] = max(LIMIT, (QUANTIZED_PEER_TIMES if about.get("single") else PEER_TIMES) * about["peer_error"])
    if not about["error"] < about["allowed"]:
        return "wrong", f"error {about['error']:.1e}, allowed {about['allowed']:.1e}"
    return "served", f"error {about['error']:.1e}"


def tried(options, daemon, name, exporter, exports):
    """One line of the results."""
    folder = exports / f"{name.replace(':', '-')}-{exporter}"
    answer = prepared(options, name, exporter, folder)
    about = answer["about"]
    if "failed" in answer:
        state, sentence = "not exported", answer["failed"]
    else:
        state, sentence = compared(daemon, folder, about)
    if not options.keep or state == "not exported":
        shutil.rmtree(folder, ignore_errors=True)
    return {"state": state, "sentence": sentence, **about}


def kind(sentence):
    """Refusals that differ in names and numbers alone are of one kind."""
    return re.sub(r"\d+", "#", re.sub(r"(node|input \d+,) '[^']*'", r"\1 '...'", sentence))


def failures(results):
    """Wrong answers first, then refusals with the operators of their networks, those of a kind together."""
    lines = []
    for state in ("wrong", "died", "refused"):
        entries = [(key, entry) for key, entry in results.items() if entry["state"] == state]
        entries.sort(key=lambda pair: (kind(pair[1]["sentence"]), pair[0]))
        lines.append(f"== {state}: {len(entries)}")
        for key, entry in entries:
            opset = entry.get("opset", "?")
            lines.append(f"{key} (opset {opset}): {entry['sentence']} [{' '.join(entry.get('operators', []))}]")
    known, wanted = set(), collections.Counter()
    for entry in results.values():
        if entry["state"] == "served":
            known.update(entry["operators"])
        elif entry["state"] == "refused":
            wanted.update(entry["operators"])
    counts = [f"{name} {count}" for name, count in wanted.most_common() if name not in known]
    lines.append(f"== operators of no network that is served, with the number of refused ones: {', '.join(counts)}")
    return "\n".join(lines) + "\n"


def summary(results, families):
    lines = []
    for exporter in EXPORTERS:
        entries = {key.split()[0]: entry for key, entry in results.items() if key.endswith(f" {exporter}")}
        if not entries:
            continue
        counts = collections.Counter(entry["state"] for entry in entries.values())
        asked = len(entries) - counts["not exported"]
        served = {families.get(name, name) for name, entry in entries.items() if entry["state"] == "served"}
        by_source = collections.Counter(map(survey_sources.source_of, served))
        lines.append(
            f"{exporter}: served {counts['served']} of {asked}, refused {counts['refused']}, wrong {counts['wrong']}, "
            f"died {counts['died']}; not exported {counts['not exported']}; "
            f"families served: {', '.join(f'{count} of {source}' for source, count in by_source.items())}"
        )
        weak = [name for name, entry in entries.items() if (entry.get("spread") or 1) < WEAK_SPREAD]
        if weak:
            lines.append(f"  answers that hardly depend on the image, so that the comparison is weak: {', '.join(weak)}")
    kinds = collections.Counter(kind(entry["sentence"]) for entry in results.values() if entry["state"] == "refused")
    lines += [f"  {count} x {sentence}" for sentence, count in kinds.most_common(30)]
    return "\n".join(lines)


def main():
    options = options_of()
    work = pathlib.Path(options.work).resolve()
    work.mkdir(parents=True, exist_ok=True)
    names, found = names_of(options, work)
    for source in {survey_sources.source_of(name) for name in names}:
        survey_sources.module_of(source)  # once, for all processes that export
    if options.list:
        print("\n".join(f"{name} {found[name]['family']} {found[name]['parameters']} {found[name]['side']}" for name in names))
        return 0
    record = work / f"results-{options.backend}.json"
    results = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    daemon = survey_server.Daemon(options.build, options.backend, work / f"daemon-{options.backend}", options.seconds)
    begun, count = time.monotonic(), 0
    try:
        for name in names:
            keys = [f"{name} {exporter}" for exporter in survey_sources.exporters_of(name, options.exporters)]
            open_keys = [key for key in keys if key not in results or results[key]["state"] in options.again]
            late = options.budget and time.monotonic() - begun > options.budget
            if late or (options.limit and count == options.limit):
                break
            for key in open_keys:
                entry = tried(options, daemon, *key.split(), work / "exports")
                results[key] = entry
                write(record, json.dumps(results, indent=1) + "\n")
                loud = entry["state"].upper() if entry["state"] in ("wrong", "died") else entry["state"]
                times = "".join(f", {word} {entry[word + '_s']:g} s" for word in ("export", "load") if word + "_s" in entry)
                print(f"{key}: {loud}: {entry['sentence']}{times}", flush=True)
                if options.failures:
                    write(pathlib.Path(options.failures), failures(results))
            count += bool(open_keys)
    finally:
        daemon.stop()
    shown = {key: entry for key, entry in results.items() if key.split()[0] in set(names)}
    print(summary(shown, {name: about["family"] for name, about in found.items()}))
    return int(any(entry["state"] in ("wrong", "died") for entry in shown.values()))


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # what it started ends with it
    sys.exit(main())
