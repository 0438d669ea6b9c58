#!/usr/bin/env python3
"""The same ONNX file in PyTorch on a GPU, the way somebody would who wants it fast: weights and input on the device,
one CUDA graph, cuDNN choosing its algorithms by trying them.

    peer_torch.py MODEL.onnx BATCH [fp32|tf32|fp16] [--compile]

Prints the median time of 30 replays in milliseconds. Knows the operators of the networks that ship, no more."""

import sys

import numpy
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper


class Network(torch.nn.Module):
    """Runs the file's nodes in their order."""

    def __init__(self, graph):
        super().__init__()
        self.nodes = list(graph.node)
        self.input, self.output = graph.input[0].name, graph.output[0].name
        self.names = {}
        for initializer in graph.initializer:
            value = numpy_helper.to_array(initializer)
            if value.dtype == numpy.int64:
                self.names[initializer.name] = value.tolist()
            else:
                name = f"w{len(self.names)}"
                self.register_buffer(name, torch.from_numpy(value.astype(numpy.float32)))
                self.names[initializer.name] = name

    def forward(self, image):
        values = {self.input: image}

        def get(name):
            if name in values:
                return values[name]
            known = self.names[name]
            return getattr(self, known) if isinstance(known, str) else known

        for node in self.nodes:
            x = [get(name) for name in node.input if name]
            given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            values[node.output[0]] = self.run(node.op_type, x, given)
        return values[self.output]

    @staticmethod
    def run(kind, x, given):
        if kind == "Cast":
            return x[0]
        if kind == "Conv":
            pads = given.get("pads", [0, 0, 0, 0])
            return F.conv2d(
                x[0], x[1], x[2] if len(x) > 2 else None, given.get("strides", 1), pads[:2], given.get("dilations", 1), given.get("group", 1)
            )
        if kind == "Gemm":
            return F.linear(x[0], x[1] if given.get("transB", 0) else x[1].t(), x[2] if len(x) > 2 else None)
        if kind == "MaxPool":
            return F.max_pool2d(x[0], given["kernel_shape"], given.get("strides", 1))
        if kind == "Reshape":
            return x[0].reshape(x[0].shape[0], -1)
        if kind == "ReduceMean":
            axes = given.get("axes") or x[1]
            return x[0].mean(dim=axes, keepdim=bool(given.get("keepdims", 1)))
        return {"Relu": F.relu, "Tanh": torch.tanh, "Add": torch.add}[kind](*x)


def replays(run, count=30):
    """Milliseconds of each replay of a graph of run, after warming up."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(5):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        run()
    for _ in range(5):
        graph.replay()
    times = []
    for _ in range(count):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return times


def main():
    path, batch = sys.argv[1], int(sys.argv[2])
    precision = sys.argv[3] if len(sys.argv) > 3 else "fp32"
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    graph = onnx.load(path).graph
    network = Network(graph).cuda().eval()
    sides = [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim][1:]
    image = torch.randn(batch, *sides, device="cuda")
    if precision == "fp16":
        network, image = network.half(), image.half().to(memory_format=torch.channels_last)
    if "--compile" in sys.argv:
        network = torch.compile(network, mode="max-autotune-no-cudagraphs")
    print(f"{numpy.median(replays(lambda: network(image))):.4f}")


if __name__ == "__main__":
    main()
