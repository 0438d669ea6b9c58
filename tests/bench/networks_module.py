"""A network of torchvision or timm as networks.py measures it: the module that networks_export.py writes as an ONNX file, and that
networks_torch.py runs as it is. The same name and seed make the same weights in both."""

import functools
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models"))
import pytorch_networks  # noqa: E402


@functools.lru_cache(maxsize=1)
def made(name, seed):
    """(the module on the CPU, in float32 and eval mode; (height, width) of its images) of "SOURCE:NAME". Weights are random, so
    nothing is downloaded; statistics of batch normalisation are those of random images, so that numbers stay as large as in a
    trained network. The module is kept for the next call: copy it before you change it."""
    source, name = pytorch_networks.find(name)
    torch.manual_seed(seed)
    network, size = pytorch_networks.made(source, name, like_trained=False)
    pytorch_networks.livened(network)
    return pytorch_networks.calibrated(network, size), size
