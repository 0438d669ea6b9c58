#!/usr/bin/env python3
"""Trains a network that ships with convoyd and writes it as a model folder.

    python3 models/train.py cifar10-resnet --data ../shared/data --out models/cifar10-resnet/1

Written for PyTorch 2.11; needs onnx, onnxscript, onnxruntime, numpy and Pillow. One GPU trains each of them
in minutes; a CPU does too, in hours to weeks (docs/models.md), or with fewer epochs (--set epochs=10). The
recipes are in recipes.py. They are compared with --holdout, which trains without some of the training images,
measures on those, and writes nothing; the test images are looked at once, after the final training, and
choose nothing. --check reads the data and says what is there; NumPy and Pillow are enough for that."""

import argparse
import dataclasses
import math
import pathlib
import sys

import data
import recipes


def arguments():
    parser = argparse.ArgumentParser(
        description="Trains a network that ships with convoyd and writes it as a model folder."
    )
    parser.add_argument("model", choices=list(recipes.RECIPES))
    parser.add_argument(
        "--data",
        required=True,
        type=pathlib.Path,
        help="the folder that holds cifar10-jpg/ and fashion-mnist/",
    )
    parser.add_argument("--out", type=pathlib.Path, help="the version's folder, e.g. models/cifar10-resnet/1")
    parser.add_argument("--check", action="store_true", help="only read the data, and say what is there")
    parser.add_argument("--device", help="cuda or cpu (what there is)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--holdout", type=int, default=0, help="training images kept out, to compare recipes")
    parser.add_argument("--fold", type=int, default=0, help="which part of the images is kept out, from 0")
    parser.add_argument(
        "--set",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="other values than the recipe's, e.g. epochs=10",
    )
    options = parser.parse_args()
    if not options.out and not options.holdout and not options.check:
        parser.error("--out is missing: name the version's folder, e.g. models/cifar10-resnet/1")
    if options.out and options.holdout:
        parser.error("--holdout compares recipes and writes nothing: take it without --out")
    if options.holdout < 0 or options.fold < 0:
        parser.error("--holdout and --fold must be 0 or more")
    return options


def check(path, net, images, mean, std):
    """ONNX Runtime must give for the file what PyTorch gives for net, the network as it was trained with its
    batch norms, on a batch and on one image alone."""
    import numpy as np
    import torch

    import batches
    import export

    prepare = batches.normaliser(mean, std, "cpu")
    for part in (images.pixels[:256], images.pixels[:1]):
        with torch.no_grad():
            expected = net(prepare(torch.from_numpy(part))).numpy()
        error = np.abs(export.run_model(path, part, mean, std) - expected).max() / np.abs(expected).max()
        if not error < 1e-5:
            raise data.DataError(
                f"{path} and the trained network differ by {error:.1e} of the largest logit."
            )
        yield f"the export differs from PyTorch by {error:.1e} of the largest logit on {len(part)} images"


def score(share, count):
    """A share with its standard error, in per cent."""
    return f"{100 * share:.1f} +- {100 * math.sqrt(share * (1 - share) / count):.1f} %"


def write(options, recipe, trained, images, mean, std, log):
    """The model folder, checked. Weights are stored in 16 bits unless that costs accuracy on the training
    images."""
    import export
    import networks

    channels, size = images.pixels.shape[1:3]
    net = networks.folded(trained)
    path = options.out / "model.onnx"
    whole = options.out / "model-32.onnx"
    export.write_onnx(net, whole, options.model, channels, size)
    export.write_settings(options.out.parent, images, mean, std)
    for line in check(whole, trained.cpu(), images, mean, std):
        log(line)
    export.halve(whole, path)
    part = images.take(slice(0, None, max(1, len(images) // 5000)))
    rights = [
        (export.run_model(file, part.pixels, mean, std).argmax(1) == part.labels) for file in (whole, path)
    ]
    log(
        f"of {len(part)} training images {rights[0].sum()} are right with weights in 32 bits, "
        f"{rights[1].sum()} in 16; {(rights[0] != rights[1]).sum()} changed"
    )
    if rights[0].mean() - rights[1].mean() > 0.001:
        log("16 bits cost accuracy: the weights stay in 32")
        whole.replace(path)
    else:
        whole.unlink()
    weights, adds = networks.count(net, channels, size)
    log(f"{weights:,} weights, {adds:,} multiply-adds an image, {path.stat().st_size:,} bytes")
    tested = data.load(recipe.data, options.data, "test").resized(recipe.size)
    right = export.run_model(path, tested.pixels, mean, std).argmax(1) == tested.labels
    log(f"test accuracy {score(right.mean(), len(right))} ({right.sum():,} of {len(right):,})")
    for index, name in enumerate(tested.classes):
        of_class = right[tested.labels == index]
        log(f"  {name:<12} {score(of_class.mean(), len(of_class))} of {len(of_class)}")


def main():
    options = arguments()
    recipe = recipes.changed(recipes.RECIPES[options.model], options.set)
    images = data.load(recipe.data, options.data, "train").resized(recipe.size)
    if options.out:
        data.load(recipe.data, options.data, "test")
    mean, std = images.mean_and_std()
    counts = ", ".join(f"{name} {(images.labels == i).sum()}" for i, name in enumerate(images.classes))
    rest, held = images.split(options.holdout, options.fold) if options.holdout else (images, None)
    if options.check:
        print(f"{len(images)} training images: {counts}")
        return

    import torch  # after the data, which can be wrong, and without which nothing is to be done

    import batches
    import training

    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise data.DataError("PyTorch finds no GPU here; take --device cpu.")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    lines = []

    def log(line):
        print(line, flush=True)
        lines.append(line)

    where = torch.cuda.get_device_name() if device.startswith("cuda") else "a CPU"
    log(f"{options.model}, seed {options.seed}, PyTorch {torch.__version__} on {where}")
    log(f"{len(rest)} training images ({counts})")
    log(", ".join(f"{key} {value}" for key, value in dataclasses.asdict(recipe).items()))
    prepare = batches.normaliser(mean, std, device)
    trained = training.train(options.model, recipe, rest, held, prepare, device, options.seed, log)
    if options.out:
        write(options, recipe, trained, images, mean, std, log)
        (options.out.parent / "training.log").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    try:
        main()
    except data.DataError as error:
        sys.exit(f"train.py: {error}")
