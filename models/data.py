"""The training data: reading it, and refusing with a clear sentence what cannot be trained on.

CIFAR-10 comes as JPEGs by class (a tar.gz, or a folder), Fashion-MNIST as IDX files. Needs NumPy and Pillow
only, so that data can be looked at where there is no PyTorch (train.py NAME --check)."""

import dataclasses
import gzip
import io
import math
import pathlib
import tarfile
import zlib

import numpy as np
from PIL import Image

CIFAR_CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FASHION_CLASSES = [
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
]
# A corner of a data set trains a network that has never seen the rest; that is a mistake, not a wish.
LEAST_OF_A_CLASS = 2


class DataError(Exception):
    """The data cannot be used; the message is one sentence that names the file and says what to do."""


@dataclasses.dataclass
class Images:
    """uint8 N x C x H x W, int64 N, and the classes' names in the order of the network's outputs."""

    pixels: np.ndarray
    labels: np.ndarray
    classes: list

    def __len__(self):
        return len(self.labels)

    def take(self, indices):
        return Images(self.pixels[indices], self.labels[indices], self.classes)

    def resized(self, size):
        """At size x size pixels, as the server resizes: Pillow's BILINEAR."""
        if self.pixels.shape[2:] == (size, size):
            return self
        channels = [
            [np.asarray(Image.fromarray(plane).resize((size, size), Image.BILINEAR)) for plane in image]
            for image in self.pixels
        ]
        return Images(np.array(channels, dtype=np.uint8), self.labels, self.classes)

    def mean_and_std(self):
        """Of each channel, of pixels scaled to 0..1, rounded as config.json holds them."""
        mean = [round(float(v), 4) for v in self.pixels.mean(axis=(0, 2, 3)) / 255.0]
        std = [round(float(v), 4) for v in self.pixels.std(axis=(0, 2, 3)) / 255.0]
        if min(std) == 0.0:
            raise DataError("All training images have the same colour; replace them by real ones.")
        return mean, std

    def split(self, count, fold):
        """Keeps count images out, the same ones for every seed, others for every fold: (the rest, those)."""
        if count >= len(self):
            raise DataError(f"--holdout {count} leaves none of {len(self)} images to train on.")
        folds = math.ceil(len(self) / count)
        if fold >= folds:
            raise DataError(f"--fold {fold} is not there: {len(self)} images have {folds} parts of {count}.")
        order = np.random.default_rng(20261121).permutation(len(self))
        held = np.zeros(len(self), bool)
        held[order[fold * count : (fold + 1) * count]] = True
        return self.take(np.flatnonzero(~held)), self.take(np.flatnonzero(held))


def load(name, folder, split):
    """The images of split ("train" or "test") of the data set called name, below folder."""
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise DataError(f"There is no data folder {folder}; give the folder that holds the data with --data.")
    images = {"cifar10": load_cifar, "fashion-mnist": load_fashion}[name](folder, split)
    counts = np.bincount(images.labels, minlength=len(images.classes))
    if counts.min() < LEAST_OF_A_CLASS:
        raise DataError(
            f"The class '{images.classes[counts.argmin()]}' has {counts.min()} {split} images below {folder}; "
            f"every class needs {LEAST_OF_A_CLASS} or more."
        )
    return images


def decode(data, name, source, size):
    """One JPEG as uint8 H x W x 3 (RGB)."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            pixels = np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(
            f"{name} in {source} cannot be decoded ({error}); replace it or take it out."
        ) from error
    if pixels.shape != (size, size, 3):
        raise DataError(
            f"{name} in {source} is {pixels.shape[1]} x {pixels.shape[0]} pixels; {size} x {size} are expected."
        )
    return pixels


def is_jpeg(name):
    return name.lower().endswith((".jpg", ".jpeg"))


def archive_files(path):
    """(name, bytes) of each JPEG in a tar.gz."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if member.isfile() and is_jpeg(member.name):
                    yield member.name, archive.extractfile(member).read()
    except (OSError, tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is no readable tar.gz archive ({error}); copy it again.") from error


def folder_files(path):
    """(name, bytes) of each JPEG below a folder."""
    for file in sorted(path.rglob("*")):
        if file.is_file() and is_jpeg(file.name):
            yield str(file.relative_to(path)), file.read_bytes()


def load_cifar(folder, split):
    """cifar10-jpg/SPLIT.tar.gz or the folder cifar10-jpg/SPLIT: .../CLASS/NAME.jpg of 32 x 32 pixels, in the
    order of their names."""
    source = folder / "cifar10-jpg" / split
    files = folder_files
    if not source.is_dir():
        source, files = source.with_name(f"{split}.tar.gz"), archive_files
        if not source.is_file():
            raise DataError(f"{source} is missing; it should hold JPEGs as {split}/CLASS/NAME.jpg.")
    found = {}
    for name, data in files(source):
        label = pathlib.PurePosixPath(name).parent.name
        found[name] = label, decode(data, name, source, 32)
    if not found:
        raise DataError(f"{source} holds no JPEG; it should hold CLASS/NAME.jpg for each image.")
    present = sorted({label for label, _ in found.values()})
    if present != CIFAR_CLASSES:
        raise DataError(
            f"{source} holds {len(present)} classes ({', '.join(present[:12])}); a folder for each of the "
            f"{len(CIFAR_CLASSES)} is expected: {', '.join(CIFAR_CLASSES)}."
        )
    order = sorted(found)
    pixels = np.stack([found[name][1] for name in order]).transpose(0, 3, 1, 2)
    labels = np.array([CIFAR_CLASSES.index(found[name][0]) for name in order], dtype=np.int64)
    return Images(np.ascontiguousarray(pixels), labels, CIFAR_CLASSES)


def read_idx(path, rank):
    """An IDX file of bytes (plain if it is not .gz) with rank dimensions."""
    if not path.is_file():
        raise DataError(f"{path} is missing; copy Fashion-MNIST's IDX files there.")
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be unpacked ({error}); copy it again.") from error
    if data[:4] != bytes([0, 0, 8, rank]):
        raise DataError(f"{path} is no IDX file of bytes with {rank} dimensions; copy it again.")
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(rank)]
    values = np.frombuffer(data, np.uint8, offset=min(len(data), 4 + 4 * rank))
    if len(values) != math.prod(shape):
        raise DataError(
            f"{path} holds {len(values)} bytes where its head announces {math.prod(shape)}; copy it again."
        )
    return values.reshape(shape).copy()  # PyTorch wants memory that can be written


def load_fashion(folder, split):
    """fashion-mnist/SPLIT-images-idx3-ubyte.gz (28 x 28 grey) and SPLIT-labels-idx1-ubyte.gz."""
    source = folder / "fashion-mnist"
    pixels = read_idx(source / f"{split}-images-idx3-ubyte.gz", 3)
    path = source / f"{split}-labels-idx1-ubyte.gz"
    labels = read_idx(path, 1).astype(np.int64)
    if pixels.shape[1:] != (28, 28):
        raise DataError(
            f"The images in {source} are {pixels.shape[2]} x {pixels.shape[1]} pixels, not 28 x 28."
        )
    if len(pixels) == 0 or len(pixels) != len(labels):
        raise DataError(
            f"{source} holds {len(pixels)} {split} images and {len(labels)} labels; copy both again."
        )
    if labels.max() >= len(FASHION_CLASSES):
        raise DataError(
            f"{path} names class {labels.max()}; there are {len(FASHION_CLASSES)} classes, 0 to "
            f"{len(FASHION_CLASSES) - 1}."
        )
    return Images(pixels[:, None], labels, FASHION_CLASSES)
