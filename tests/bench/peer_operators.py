"""Operators of ONNX as calls of PyTorch, for peer_torch.py: OPERATORS[op_type](inputs, attributes). Inputs are tensors, or
Python's numbers and lists where the file has integers. Those of the usual image classifiers, no more."""

import torch
import torch.nn.functional as F


def padded(image, given, value=0.0):
    """(the image, the padding of both sides that is left to the operator itself)"""
    pads = given.get("pads", [0, 0, 0, 0])
    if given.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise ValueError("auto_pad")
    if pads[:2] == pads[2:]:
        return image, pads[:2]
    return F.pad(image, (pads[1], pads[3], pads[0], pads[2]), value=value), [0, 0]


def conv(x, given):
    image, pads = padded(x[0], given)
    bias = x[2] if len(x) > 2 else None
    return F.conv2d(image, x[1], bias, given.get("strides", 1), pads, given.get("dilations", 1), given.get("group", 1))


def gemm(x, given):
    return F.linear(x[0], x[1] if given.get("transB", 0) else x[1].t(), x[2] if len(x) > 2 else None)


def max_pool(x, given):
    image, pads = padded(x[0], given, -torch.inf)
    return F.max_pool2d(
        image, given["kernel_shape"], given.get("strides", 1), pads, given.get("dilations", 1), bool(given.get("ceil_mode", 0))
    )


def average_pool(x, given):
    image, pads = padded(x[0], given)
    counts_pads = bool(given.get("count_include_pad", 0))
    if image is not x[0] and not counts_pads:
        raise ValueError("an average of unequal padding")
    return F.avg_pool2d(image, given["kernel_shape"], given.get("strides", 1), pads, bool(given.get("ceil_mode", 0)), counts_pads)


def batch_norm(x, given):
    return F.batch_norm(x[0], x[3], x[4], x[1], x[2], eps=given.get("epsilon", 1e-5))


def reduce_mean(x, given):
    return x[0].mean(dim=given.get("axes") or x[1], keepdim=bool(given.get("keepdims", 1)))


def clip(x, given):
    bounds = [float(bound) for bound in x[1:]] or [given.get("min", -torch.inf), given.get("max", torch.inf)]
    return torch.clamp(x[0], *bounds)


OPERATORS = {
    "Add": lambda x, _: x[0] + x[1],
    "AveragePool": average_pool,
    "BatchNormalization": batch_norm,
    "Cast": lambda x, _: x[0],  # weights are kept in 16 bits in the file
    "Clip": clip,
    "Concat": lambda x, given: torch.cat(x, given["axis"]),
    "Conv": conv,
    "Dropout": lambda x, _: x[0],
    "Flatten": lambda x, _: x[0].flatten(1),
    "Gemm": gemm,
    "GlobalAveragePool": lambda x, _: x[0].mean(dim=(2, 3), keepdim=True),
    "HardSigmoid": lambda x, given: torch.clamp(x[0] * given.get("alpha", 0.2) + given.get("beta", 0.5), 0, 1),
    "HardSwish": lambda x, _: F.hardswish(x[0]),
    "Identity": lambda x, _: x[0],
    "MaxPool": max_pool,
    "Mul": lambda x, _: x[0] * x[1],
    "ReduceMean": reduce_mean,
    "Relu": lambda x, _: F.relu(x[0]),
    "Reshape": lambda x, _: x[0].reshape(x[0].shape[0], -1),
    "Sigmoid": lambda x, _: torch.sigmoid(x[0]),
    "Softmax": lambda x, given: torch.softmax(x[0], given.get("axis", -1)),
    "Tanh": lambda x, _: torch.tanh(x[0]),
}
