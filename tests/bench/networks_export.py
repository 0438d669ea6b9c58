#!/usr/bin/env python3
"""A network of torchvision or timm as an ONNX file, for a benchmark:

    networks_export.py SOURCE:NAME FILE [SEED [EXPORTER [OPSET]]]

EXPORTER is torchscript (the default) or dynamo, OPSET the exporter's own unless it is given. SOURCE is torchvision or timm. Weights are random, from the seed, so nothing is downloaded; statistics of batch
normalisation are those of random images, so that numbers stay as large as in a trained network. Needs PyTorch, onnx
and the source."""

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models"))
import pytorch_export  # noqa: E402
import pytorch_networks  # noqa: E402


def main():
    seed, exporter, opset = (sys.argv[3:] + ["1", "torchscript", "0"][len(sys.argv) - 3 :])[:3]
    source, name = pytorch_networks.find(sys.argv[1])
    torch.manual_seed(int(seed))
    network, size = pytorch_networks.made(source, name, like_trained=False)
    pytorch_networks.livened(network)
    pytorch_networks.calibrated(network, size)
    pytorch_export.export(network, size, sys.argv[2], exporter, int(opset) or None)


if __name__ == "__main__":
    main()
