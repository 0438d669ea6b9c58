#!/usr/bin/env python3
"""PyTorch as networks.py asks for it: a process that reads an object of JSON a line and answers each with one.

    {"do": "hello"}                          what is this?
    {"do": "reference", NETWORK, input, rows, out}
                                             the outputs of the first rows in float64, written to out
    {"do": "prepare", key, NETWORK, input, batch, precision, channels_last, compile, autotune}
    {"do": "prepare", key, conv, seed, precision, channels_last}
                                             a network, or a convolution n,c,h,w,k,r,s by itself, captured as a CUDA graph
    {"do": "measure", key, runs, out}        its times in microseconds; its outputs as float32, if there is an out
    {"do": "release"}                        all that was prepared

NETWORK is model, an ONNX file whose nodes are run in their order, or module and seed: a module of torchvision or timm itself,
"SOURCE:NAME" as networks_module.py makes it.

What fails is answered {"failed": a sentence}; the rest goes on. After an error of CUDA nothing would, so it ends, which
"lost" in the answer says. Without a GPU it computes on the CPU."""

import copy
import gc
import json
import os
import sys
import time
import traceback

import numpy
import onnx
import peer_torch
import torch
import torch.nn.functional as F

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CHUNK = 256  # rows that are computed at a time in float64
prepared = {}  # of each key (replay, output)


def hello(_):
    cudnn = torch.backends.cudnn.version() if DEVICE == "cuda" else None
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
    return {"torch": torch.__version__, "cudnn": cudnn, "device": name, "gpu": DEVICE == "cuda"}


def network_of(asked):
    """(a module that may be changed, the sides of its images: C, H, W)"""
    if asked.get("module"):
        import networks_module

        network, size = networks_module.made(asked["module"], asked["seed"])
        return copy.deepcopy(network), (3, *size)
    graph = onnx.load(asked["model"]).graph
    sides = [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim][1:]
    return peer_torch.Network(graph).eval(), sides


def rows_of(path, sides, count):
    flat = numpy.fromfile(path, numpy.float32, count * int(numpy.prod(sides)))
    return torch.from_numpy(flat.reshape(count, *sides))


def in_float64(run, image):
    """What run makes of image, some rows at a time."""
    torch.backends.cudnn.benchmark = False
    with torch.no_grad():
        return torch.cat([run(part.to(DEVICE).double()).cpu() for part in image.split(CHUNK)])


def reference(asked):
    network, sides = network_of(asked)
    image = rows_of(asked["input"], sides, asked["rows"])
    in_float64(network.to(DEVICE).double(), image).numpy().astype(numpy.float64).tofile(asked["out"])
    return {}


def network_to_run(asked):
    network, sides = network_of(asked)
    image = rows_of(asked["input"], sides, asked["batch"])
    network, image = (
        peer_torch.as_given(thing.to(DEVICE), asked["precision"], asked["channels_last"]) for thing in (network, image)
    )
    if asked["compile"]:
        # The code of a library's module may have parts that Python runs. What it captures is one graph all the same.
        network = peer_torch.compiled(network, whole=not asked.get("module"), autotune=asked["autotune"])
    return lambda: network(image)


def conv_to_run(asked):
    """And what it should answer for the first rows, in float64."""
    n, c, h, w, k, r, s = asked["conv"]
    torch.manual_seed(asked["seed"])
    image, weights = torch.randn(n, c, h, w), torch.randn(k, c, r, s) / (c * r * s) ** 0.5
    wanted = in_float64(lambda part: F.conv2d(part, weights.to(DEVICE).double()), image[:CHUNK])
    peer_torch.allow(asked["precision"])
    given_image, given_weights = (
        peer_torch.as_given(thing.to(DEVICE), asked["precision"], asked["channels_last"]) for thing in (image, weights)
    )
    return lambda: F.conv2d(given_image, given_weights), wanted


def prepare(asked):
    begun = time.monotonic()
    answer, wanted = {}, None
    peer_torch.allow(asked["precision"])
    if "conv" in asked:
        run, wanted = conv_to_run(asked)
    else:
        run = network_to_run(asked)
    replay, output = peer_torch.capture(run)
    if wanted is not None:
        replay()
        got = output[: len(wanted)].cpu().double()
        answer["error"] = float((got - wanted).abs().max() / wanted.abs().max())
    prepared[asked["key"]] = replay, output
    return answer | {"prepare_s": time.monotonic() - begun}


def measure(asked):
    if asked["key"] not in prepared:
        return {"failed": f"{asked['key']} was lost with the process that had it"}
    replay, output = prepared[asked["key"]]
    times = sorted(1e3 * ms for ms in peer_torch.replays(replay, asked["runs"]))
    if asked.get("out"):
        output.fill_(float("nan"))  # what a replay does not write is seen
        replay()
        output.float().cpu().numpy().tofile(asked["out"])
    return {"median_us": times[len(times) // 2], "least_us": times[0], "greatest_us": times[-1]}


def release(_):
    prepared.clear()
    torch._dynamo.reset()
    gc.collect()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
    return {}


def lost(error):
    """No call of CUDA will work in this process after it."""
    return isinstance(error, RuntimeError) and "CUDA error" in str(error) and not isinstance(error, torch.OutOfMemoryError)


def main():
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # compilers print what they like
    known = {function.__name__: function for function in (hello, reference, prepare, measure, release)}
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = known[asked["do"]](asked)
        except Exception as error:  # whatever it is, other peers go on
            traceback.print_exc()
            reason = (str(error) or "no reason given").splitlines()[0][:300]
            answer = {"failed": f"{type(error).__name__}: {reason}", "lost": lost(error)}
        print(json.dumps(answer), file=answers, flush=True)
        if answer.get("lost"):
            os._exit(1)  # not even its destructors would


if __name__ == "__main__":
    main()
