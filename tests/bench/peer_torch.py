#!/usr/bin/env python3
"""The same ONNX file in PyTorch on a GPU, as a user who wants speed would run it: weights and input on the device,
one CUDA graph, cuDNN choosing its algorithms by trying them.

    peer_torch.py MODEL.onnx BATCH [fp32|tf32|fp16] [--compile]

Prints the median time of 30 replays in milliseconds. Knows the operators of peer_operators.py. networks.py takes the same
through networks_torch.py."""

import sys
import time

import numpy
import onnx
import torch
from onnx import numpy_helper
from peer_operators import OPERATORS

WARM_UP_S, WARM_UP_LEAST = 0.1, 5  # as bench_network_time
AHEAD_CYCLES = 100_000  # some 50 us: longer than Python takes for recording an event and launching a graph


class Network(torch.nn.Module):
    """Runs the file's nodes in their order. What forward() meets is plain, so that torch.compile sees one graph."""

    def __init__(self, graph):
        super().__init__()
        self.input, self.output = graph.input[0].name, graph.output[0].name
        self.names = {}
        for initializer in graph.initializer:
            self.keep(initializer.name, numpy_helper.to_array(initializer))
        for node in graph.node:
            if node.op_type == "Constant":
                self.keep(node.output[0], numpy_helper.to_array(node.attribute[0].t))
        self.nodes = [
            (
                node.op_type,
                [name for name in node.input if name],
                node.output[0],
                {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute},
            )
            for node in graph.node
            if node.op_type != "Constant"
        ]
        unknown = sorted({node[0] for node in self.nodes} - set(OPERATORS))
        if unknown:
            raise ValueError(f"peer_operators.py has no {', '.join(unknown)}")

    def keep(self, name, value):
        """A constant: whole numbers and single ones, of which operators are made, as Python's, others as a tensor."""
        if value.dtype == numpy.int64 or value.ndim == 0:
            self.names[name] = value.tolist()
            return
        buffer = f"w{len(self.names)}"
        self.register_buffer(buffer, torch.from_numpy(value.astype(numpy.float32)))
        self.names[name] = buffer

    def forward(self, image):
        values = {self.input: image}

        def get(name):
            if name in values:
                return values[name]
            known = self.names[name]
            return getattr(self, known) if isinstance(known, str) else known

        for kind, inputs, output, given in self.nodes:
            values[output] = OPERATORS[kind]([get(name) for name in inputs], given)
        return values[self.output]


def allow(precision):
    """What float32 tensors are multiplied in."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"


def as_given(thing, precision, channels_last):
    """A network or an image in the type and memory layout that it is computed in."""
    if precision == "fp16":
        thing = thing.half()
    return thing.to(memory_format=torch.channels_last) if channels_last else thing


def compiled(network, whole=True, autotune=True):
    """By everything that torch.compile can do for a network that does not change: weights as constants (freezing) and, where
    autotune, the fastest kernels by trying, which takes it minutes. Its own CUDA graphs stay off, because we capture one around it as
    around all others. whole: it must be one graph, or compiling fails."""
    import torch._inductor.config

    torch._inductor.config.freezing = True
    mode = "max-autotune-no-cudagraphs" if autotune else "default"
    return torch.compile(network, mode=mode, fullgraph=whole, dynamic=False)


def capture(run):
    """(a function that runs run again as one CUDA graph, its output). Without a GPU run itself."""
    if not torch.cuda.is_available():
        with torch.no_grad():
            output = run()

        def again():
            with torch.no_grad():
                output.copy_(run())

        return again, output
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(5):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        output = run()

    def replay():
        graph.replay()

    replay.reads = run  # the graph has addresses only: weights and input must live as long as it
    return replay, output


def timed(replay):
    """Milliseconds of one replay. The GPU is kept waiting until it has all of it, so that Python's time is not in it."""
    if not torch.cuda.is_available():
        begun = time.perf_counter()
        replay()
        return (time.perf_counter() - begun) * 1e3
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(AHEAD_CYCLES)
    begin.record()
    replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def replays(replay, count=30):
    """Milliseconds of each of count replays, after warming up."""
    until, done = time.perf_counter() + WARM_UP_S, 0
    while done < WARM_UP_LEAST or time.perf_counter() < until:
        timed(replay)
        done += 1
    return [timed(replay) for _ in range(count)]


def main():
    path, batch = sys.argv[1], int(sys.argv[2])
    precision = sys.argv[3] if len(sys.argv) > 3 and sys.argv[3] != "--compile" else "fp32"
    allow(precision)
    graph = onnx.load(path).graph
    sides = [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim][1:]
    network, image = (
        as_given(thing.to("cuda"), precision, precision == "fp16")
        for thing in (Network(graph).eval(), torch.randn(batch, *sides))
    )
    if "--compile" in sys.argv:
        network = compiled(network)
    print(f"{numpy.median(replays(capture(lambda: network(image))[0])):.4f}")


if __name__ == "__main__":
    main()
