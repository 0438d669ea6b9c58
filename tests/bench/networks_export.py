#!/usr/bin/env python3
"""A network of torchvision or timm as an ONNX file, for a benchmark:

    networks_export.py SOURCE:NAME FILE [SEED [EXPORTER [OPSET]]]

EXPORTER is torchscript (the default) or dynamo, OPSET the exporter's own unless it is given. SOURCE is torchvision or timm. Weights
are random, from the seed (networks_module.py). Needs PyTorch, onnx and the source."""

import sys

import networks_module  # also finds the modules of models/
import pytorch_export


def main():
    seed, exporter, opset = (sys.argv[3:] + ["1", "torchscript", "0"][len(sys.argv) - 3 :])[:3]
    network, size = networks_module.made(sys.argv[1], int(seed))
    pytorch_export.export(network, size, sys.argv[2], exporter, int(opset) or None)


if __name__ == "__main__":
    main()
