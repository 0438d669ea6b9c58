#!/usr/bin/env python3
"""ONNX Runtime by itself: images a second of one model at one batch size, the peer of bench_backend_rate.

    onnxruntime_rate.py MODEL.onnx BATCH SECONDS THREADS

Prints one line, counted over SECONDS after a second of warming up, from its own C++ loop as far as that goes: the
session runs on bound buffers, so Python adds a call a batch. Needs onnxruntime and NumPy.
"""

import sys
import time

import numpy as np
import onnxruntime


def main():
    path, batch, seconds, threads = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    network_input = session.get_inputs()[0]
    pixels = np.random.default_rng(1).uniform(-1, 1, (batch, *network_input.shape[1:])).astype(np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input(network_input.name, pixels)
    for output in session.get_outputs():
        binding.bind_output(output.name)

    def run(until):
        batches = 0
        while time.perf_counter() < until:
            session.run_with_iobinding(binding)
            batches += 1
        return batches

    run(time.perf_counter() + 1)
    begun = time.perf_counter()
    batches = run(begun + seconds)
    print(round(batches * batch / (time.perf_counter() - begun)))


if __name__ == "__main__":
    main()
