#!/usr/bin/env python3
"""Trains a model that ships with convoyd and writes it as a model folder.

    python3 models/train.py cifar10-convnet --data ../shared/data --out models/cifar10-convnet/1

Written for PyTorch 2.11; needs onnx, onnxscript, onnxruntime, numpy and Pillow. One GPU trains it in
minutes; on a CPU take fewer epochs. Recipes are compared with --holdout, which trains without some of the
training images, measures on those, and writes nothing; the test images are looked at once, after the final
training, and choose nothing."""

import argparse
import math
import pathlib
import sys
import time

import numpy as np
import torch
from torch import nn

import cifar
import convnet
import export


def arguments():
    parser = argparse.ArgumentParser(description="Trains a model that ships with convoyd.")
    parser.add_argument("model", choices=["cifar10-convnet"])
    parser.add_argument(
        "--data", required=True, help="the folder that holds cifar10-jpg/train.tar.gz and test.tar.gz"
    )
    parser.add_argument(
        "--out", type=pathlib.Path, help="the version's folder, e.g. models/cifar10-convnet/1"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--holdout", type=int, default=0, help="training images kept out, to compare recipes")
    recipe = parser.add_argument_group("recipe")
    recipe.add_argument("--epochs", type=int, default=800)
    recipe.add_argument("--batch", type=int, default=256)
    recipe.add_argument("--rate", type=float, default=0.15, help="the highest learning rate")
    recipe.add_argument("--decay", type=float, default=5e-4, help="weight decay")
    recipe.add_argument("--shift", type=int, default=3, help="pixels by which images move at most")
    recipe.add_argument("--smoothing", type=float, default=0.0, help="label smoothing")
    recipe.add_argument(
        "--average", type=float, default=0.999, help="decay of the weights' moving average per step"
    )
    options = parser.parse_args()
    if not options.out and not options.holdout:
        parser.error("--out is missing: name the version's folder, e.g. models/cifar10-convnet/1")
    if options.epochs < 1 or options.batch < 1 or options.shift < 0:
        parser.error("--epochs and --batch must be 1 or more, --shift 0 or more")
    return options


class Batches:
    """Training images on the device, dealt in random batches, each image mirrored or not and moved by a few
    pixels.

    The images are padded once by reflection; a batch is then a single gather of shifted rows and (for a
    mirrored image) reversed columns, which costs far less than a transformation per image."""

    def __init__(self, images, labels, device, batch, shift, seed):
        padded = np.pad(images, ((0, 0), (0, 0), (shift, shift), (shift, shift)), mode="reflect")
        self.images = torch.from_numpy(padded).to(device)
        self.labels = torch.from_numpy(labels).to(device)
        self.batch, self.shift, self.device = batch, shift, device
        self.random = torch.Generator(device).manual_seed(seed)

    def __len__(self):
        return len(self.labels) // self.batch

    def integers(self, high, count):
        return torch.randint(high, (count, 1), generator=self.random, device=self.device)

    def __iter__(self):
        order = torch.randperm(len(self.labels), generator=self.random, device=self.device)
        steps = torch.arange(cifar.SIZE, device=self.device)
        channels = torch.arange(3, device=self.device).reshape(1, 3, 1, 1)
        for i in range(len(self)):
            chosen = order[i * self.batch : (i + 1) * self.batch]
            n = len(chosen)
            rows = steps + self.integers(2 * self.shift + 1, n)
            columns = torch.where(self.integers(2, n) == 1, cifar.SIZE - 1 - steps, steps)
            columns = columns + self.integers(2 * self.shift + 1, n)
            pixels = self.images[
                chosen.reshape(n, 1, 1, 1), channels, rows.reshape(n, 1, -1, 1), columns.reshape(n, 1, 1, -1)
            ]
            yield pixels, self.labels[chosen]


def optimizer_for(net, options, steps):
    """Nesterov's momentum, and a one-cycle schedule: up over the first tenth of all steps, then down to zero
    along a cosine (Smith and Topin 2018; Loshchilov and Hutter 2017). Weight decay leaves biases and batch
    norms alone."""
    groups = [
        {"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": options.decay},
        {"params": [p for p in net.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.SGD(
        groups, lr=options.rate, momentum=0.9, nesterov=True, fused=options.device.startswith("cuda")
    )
    rise = max(1, steps // 10)

    def factor(step):
        if step < rise:
            return (step + 1) / rise
        return 0.5 * (1.0 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def normaliser(mean, std, device):
    """uint8 N x 3 x H x W to float32, as the server will do it: scaled to 0..1, then (x - mean) / std per
    channel."""
    shape = (1, 3, 1, 1)
    mean = torch.tensor(mean, device=device).reshape(shape)
    std = torch.tensor(std, device=device).reshape(shape)
    return lambda pixels: (pixels.float() * (1.0 / 255.0) - mean) / std


@torch.no_grad()
def accuracy(net, images, labels, prepare, device):
    """The share of images (uint8, on the CPU) whose highest logit is their label's."""
    right = 0
    for i in range(0, len(labels), 2500):
        pixels = torch.from_numpy(images[i : i + 2500]).to(device)
        right += int((net(prepare(pixels)).argmax(1).cpu().numpy() == labels[i : i + 2500]).sum())
    return right / len(labels)


def train(images, labels, watched, prepare, options):
    """Trains on (images, labels); logs a line an epoch with the accuracy on the watched images, or none.
    Returns the averaged network."""
    device = options.device
    torch.manual_seed(options.seed)
    net = convnet.ConvNet().to(device)
    average = convnet.Average(net, options.average)
    batches = Batches(images, labels, device, min(options.batch, len(labels)), options.shift, options.seed)
    optimizer, schedule = optimizer_for(net, options, options.epochs * len(batches))
    measure = nn.CrossEntropyLoss(label_smoothing=options.smoothing)
    start = time.monotonic()
    for epoch in range(1, options.epochs + 1):
        net.train()
        total = torch.zeros((), device=device)
        for pixels, wanted in batches:
            loss = measure(net(prepare(pixels)), wanted)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            average.update(net)
            total += loss.detach()
        loss = total.item() / len(batches)
        if not math.isfinite(loss):
            raise cifar.DataError(
                f"The loss is {loss} in epoch {epoch}; take a lower --rate than {options.rate}."
            )
        line = f"epoch {epoch}/{options.epochs} loss {loss:.4f} rate {schedule.get_last_lr()[0]:.5f}"
        if watched:
            line += f" held-out accuracy {accuracy(average.net, *watched, prepare, device):.4f}"
        print(f"{line} time {time.monotonic() - start:.1f} s", flush=True)
    return average.net


def split(images, labels, count):
    """Keeps count images out, the same ones for every seed: (training images, labels), (held-out images,
    labels)."""
    order = np.random.default_rng(20261121).permutation(len(labels))
    held, rest = np.sort(order[:count]), np.sort(order[count:])
    return (images[rest], labels[rest]), (images[held], labels[held])


def report(path, images, labels, mean, std):
    """Prints what the exported file does with the test images, by ONNX Runtime: in all, and a class a
    line."""
    right = export.run_model(path, images, mean, std).argmax(1) == labels
    share = right.mean()
    print(
        f"test accuracy {share:.4f} +- {math.sqrt(share * (1 - share) / len(right)):.4f} "
        f"on {len(right)} images"
    )
    for index, name in enumerate(cifar.CLASSES):
        print(f"  {name:<10} {right[labels == index].mean():.3f}")


def check(path, net, images, prepare, mean, std):
    """ONNX Runtime must give for the file what PyTorch gives for net, the network as it was trained with its
    batch norms, on a batch and on one image alone."""
    for part in (images[:256], images[:1]):
        with torch.no_grad():
            expected = net(prepare(torch.from_numpy(part))).numpy()
        error = np.abs(export.run_model(path, part, mean, std) - expected).max() / np.abs(expected).max()
        if not error < 1e-5:
            raise cifar.DataError(
                f"{path} and the trained network differ by {error:.1e} of the largest logit."
            )
        print(f"{path}: differs from PyTorch by {error:.1e} of the largest logit on {len(part)} images")


def main():
    options = arguments()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        raise cifar.DataError("PyTorch finds no GPU here; take --device cpu.")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    cifar.archive_path(options.data, "test")
    images, labels = cifar.read_archive(options.data, "train")
    print(f"{len(labels)} training images; {vars(options)}", flush=True)
    mean = [round(float(v), 4) for v in images.mean(axis=(0, 2, 3)) / 255.0]
    std = [round(float(v), 4) for v in images.std(axis=(0, 2, 3)) / 255.0]
    prepare = normaliser(mean, std, options.device)
    if options.holdout:
        if options.holdout >= len(labels):
            raise cifar.DataError(
                f"--holdout {options.holdout} leaves none of {len(labels)} images to train on."
            )
        (images, labels), watched = split(images, labels, options.holdout)
        train(images, labels, watched, prepare, options)
        return
    trained = train(images, labels, None, prepare, options)
    net = trained.folded()
    weights, adds = convnet.count(net)
    path = export.write_model(net, options.out)
    export.write_settings(options.out.parent, cifar.CLASSES, mean, std)
    check(path, trained.cpu(), images, normaliser(mean, std, "cpu"), mean, std)
    print(f"{weights} weights, {adds} multiply-adds an image, {path.stat().st_size} bytes")
    report(path, *cifar.read_archive(options.data, "test"), mean, std)


if __name__ == "__main__":
    try:
        main()
    except cifar.DataError as error:
        sys.exit(f"train.py: {error}")
