#!/usr/bin/env python3
"""ONNX Runtime as cpu_networks.py asks for it, the peer of bench_network_time:

    onnxruntime_network.py MODEL.onnx INPUT THREADS

INPUT holds rows, one after the other, as the network takes them: float32. For each line BATCH RUNS OUTPUT on standard input it
runs the first BATCH rows again and again: for a tenth of a second and five times at least to warm up (once where a run takes a
second), then RUNS times, whose times it answers as a line of JSON, as bench_network_time does. The last outputs go to OUTPUT."""

import json
import statistics
import sys
import time

import numpy
import onnxruntime

WARM_UP_S, WARM_UP_LEAST, WARM_UP_MOST_S = 0.1, 5, 1  # as bench_network_time


def bound(session, rows):
    """Buffers that the session reads and writes, so that Python adds a call a batch."""
    binding = session.io_binding()
    binding.bind_cpu_input(session.get_inputs()[0].name, rows)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return binding


def timed(session, binding):
    begun = time.perf_counter()
    session.run_with_iobinding(binding)
    return time.perf_counter() - begun


def main():
    path, input_path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    rows = numpy.fromfile(input_path, numpy.float32).reshape(-1, *session.get_inputs()[0].shape[1:])
    print(json.dumps({"version": onnxruntime.__version__}), flush=True)
    for line in sys.stdin:
        batch, runs, output = line.split(maxsplit=2)
        binding = bound(session, rows[: int(batch)])
        times = [timed(session, binding)]
        while sum(times) < WARM_UP_S or (len(times) < WARM_UP_LEAST and sum(times) < WARM_UP_MOST_S):
            times.append(timed(session, binding))
        us = [1e6 * timed(session, binding) for _ in range(int(runs))]
        binding.copy_outputs_to_cpu()[0].astype(numpy.float32).tofile(output.strip())
        print(json.dumps({"median_us": statistics.median(us), "least_us": min(us), "greatest_us": max(us)}), flush=True)


if __name__ == "__main__":
    main()
