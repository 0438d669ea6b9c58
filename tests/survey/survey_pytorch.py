"""Networks of torchvision and timm for the survey."""

import pathlib
import sys

import timm  # noqa: F401
import torch
import torchvision  # noqa: F401

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models"))
import pytorch_export  # noqa: E402
import pytorch_networks  # noqa: E402

CALIBRATION_IMAGES = 4


def with_drawn_weights(network, size):
    """Weights so that each part of the network counts, and statistics as after training."""
    pytorch_networks.livened(network)
    return pytorch_networks.calibrated(network, size, CALIBRATION_IMAGES, 1)


def write(source, name, exporter, seed, path):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    network, size = pytorch_networks.made(source, name)
    network = with_drawn_weights(network, size)
    # As PyTorch writes it by default: the new exporter puts the weights into a file beside.
    if exporter == "dynamo-one":
        pytorch_export.by_dynamo(network, torch.randn(1, 3, *size), path, open_batch=False, beside=True)
        open_batch = False
    else:
        open_batch = pytorch_export.export(network, size, path, exporter, beside=True)
    parameters = sum(each.numel() for each in network.parameters())
    return {"parameters": parameters, "image": [3, *size], "open_batch": open_batch}
