#!/usr/bin/env python3
"""A network of torchvision or timm as an ONNX file, for a benchmark: networks_export.py SOURCE:NAME FILE [SEED]

SOURCE is torchvision or timm. Weights are random, from the seed, so nothing is downloaded; statistics of batch
normalisation are those of random images, so that numbers stay as large as in a trained network. Needs PyTorch, onnx
and the source."""

import sys

import torch

IMAGES = 16  # of each batch that statistics are taken from
BATCHES = 4
OPSET = 17


def made(source, name):
    """(the network, a side of its images)"""
    if source == "timm":
        import timm

        network = timm.create_model(name, pretrained=False)
        return network, network.default_cfg["input_size"][-1]
    import torchvision

    options = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    return torchvision.models.get_model(name, weights=None, **options), 299 if name == "inception_v3" else 224


def calibrated(network, side):
    """Statistics of normalisation as after training; what else is random in training stays off."""
    norms = [part for part in network.modules() if isinstance(part, torch.nn.modules.batchnorm._BatchNorm)]
    network.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all batches
        norm.train()
    with torch.no_grad():
        for _ in range(BATCHES if norms else 0):
            network(torch.randn(IMAGES, 3, side, side))
    return network.eval()


def main():
    source, name = sys.argv[1].split(":", 1)
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    network, side = made(source, name)
    calibrated(network, side)
    torch.onnx.export(
        network,
        torch.randn(1, 3, side, side),
        sys.argv[2],
        opset_version=OPSET,
        input_names=["image"],
        output_names=["classes"],
        dynamic_axes={"image": {0: "n"}, "classes": {0: "n"}},
        dynamo=False,
    )


if __name__ == "__main__":
    main()
