#!/usr/bin/env python3
"""Any networks on the CPU backend beside ONNX Runtime, for cpu.sh:

    cpu_networks.py PROGRAM WORK THREADS ROUNDS FILE.onnx...

PROGRAM is bench_network_time, WORK a folder for rows, outputs and logs. Of each file both are loaded once and asked in turns,
ROUNDS times for each batch; a round is as many runs as take two seconds. Prints the median of the rounds' medians, the
ratio of ONNX Runtime's time to ours round by round (median, least and greatest), and by how much the answers differ."""

import pathlib
import statistics
import sys

import numpy
import onnxruntime
from networks_program import Failed, Program

BATCHES = (1, 8, 32)
ROUND_S = 2
ANSWER_S = 600
SEED = 1


def sides_of(path):
    """C, H and W of the file's input; whether its batch is open."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape
    if len(session.get_inputs()) != 1 or not all(isinstance(side, int) for side in shape[1:]):
        raise Failed(f"{path}: it needs one input of a fixed size, not {shape}")
    return shape[1:], not isinstance(shape[0], int)


def difference(ours, theirs):
    """max|y - y'| / max|y'|"""
    mine, wanted = (numpy.fromfile(path, numpy.float32) for path in (ours, theirs))
    wanted = wanted[: mine.size] if mine.size <= wanted.size else wanted
    return float(numpy.abs(mine[: wanted.size] - wanted).max() / numpy.abs(wanted).max())


def measured(ours, peer, batch, rounds, work):
    """(our times, theirs) in us, a pair a round, in turns; the first round's are thrown away."""
    runs, pairs = {ours: 1, peer: 1}, []
    for _ in range(rounds + 1):
        pair = []
        for program in (ours, peer):
            answer = program.ask(f"{batch} {runs[program]} {work}/{program.name}.out", ANSWER_S)
            runs[program] = max(1, min(1000, round(ROUND_S * 1e6 / answer["median_us"])))
            pair.append(answer["median_us"])
        pairs.append(pair)
    return pairs[1:]


def compare(path, program, work, threads, rounds):
    sides, open_batch = sides_of(path)
    batches = BATCHES if open_batch else BATCHES[:1]
    rows = work / "rows"
    chance = numpy.random.default_rng(SEED)
    chance.standard_normal((max(batches), *sides), numpy.float32).tofile(rows)
    name = path.parent.parent.name if path.name == "model.onnx" else path.stem
    command = [program, "cpu", path, "fp32", str(max(batches)), rows, "", "0"]
    ours = Program("convoyd", command, work / "convoyd.log")
    script = pathlib.Path(__file__).with_name("onnxruntime_network.py")
    peer = Program("onnxruntime", [sys.executable, script, path, rows, str(threads)], work / "onnxruntime.log")
    try:
        ours.answer(ANSWER_S)
        peer.answer(ANSWER_S)
        for batch in batches:
            pairs = measured(ours, peer, batch, rounds, work)
            mine, theirs = (statistics.median(pair[k] for pair in pairs) / 1e3 for k in (0, 1))
            ratios = [pair[1] / pair[0] for pair in pairs]
            error = difference(work / "convoyd.out", work / "onnxruntime.out")
            print(f"| {name} | {batch} | {mine:.4g} ms | {theirs:.4g} ms | "
                  f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f}) | {error:.0e} |", flush=True)
    finally:
        ours.end()
        peer.end()


def main():
    program, work, threads, rounds = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    print(f"{threads} threads, median of {rounds} rounds in turns, ONNX Runtime {onnxruntime.__version__}\n")
    print("| network | batch | CPU backend | ONNX Runtime | ratio of speeds | difference |\n| --- | --- | --- | --- | --- | --- |")
    status = 0
    for path in sys.argv[5:]:
        try:
            compare(pathlib.Path(path), program, work, threads, rounds)
        except Failed as reason:
            print(f"| {path} | | | | {reason} | |", flush=True)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
