"""CIFAR-10 as JPEG archives: reading them, and what every program here must agree on about classes and
files."""

import io
import pathlib
import tarfile
import zlib

import numpy as np
from PIL import Image

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
SIZE = 32


class DataError(Exception):
    """The data cannot be used; the message is one sentence that names the file and says what to do."""


def archive_path(folder, split):
    """Where the archive of split ("train" or "test") lies under the data folder; DataError when it is not
    there."""
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise DataError(
            f"There is no data folder {folder}; give the folder that holds cifar10-jpg/ with --data."
        )
    path = folder / "cifar10-jpg" / f"{split}.tar.gz"
    if not path.is_file():
        raise DataError(f"{path} is missing; it should hold the JPEGs as {split}/CLASS/NNNN.jpg.")
    return path


def decode(data, name, archive):
    """One JPEG as uint8 H x W x 3 (RGB)."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            pixels = np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{name} in {archive} cannot be decoded ({error}); replace the archive.") from error
    if pixels.shape != (SIZE, SIZE, 3):
        raise DataError(
            f"{name} in {archive} is {pixels.shape[1]} x {pixels.shape[0]} pixels; "
            f"{SIZE} x {SIZE} are expected."
        )
    return pixels


def read_archive(folder, split):
    """All images of a split in the order of their names: (uint8 N x 3 x 32 x 32, int64 N)."""
    path = archive_path(folder, split)
    found = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                parts = pathlib.PurePosixPath(member.name).parts
                if member.isfile() and len(parts) >= 2 and parts[-1].lower().endswith((".jpg", ".jpeg")):
                    found[member.name] = (
                        parts[-2],
                        decode(archive.extractfile(member).read(), member.name, path),
                    )
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is no readable tar.gz archive ({error}); copy it again.") from error
    if not found:
        raise DataError(f"{path} holds no JPEG; it should hold {split}/CLASS/NNNN.jpg.")
    present = sorted({name for name, _ in found.values()})
    if present != sorted(CLASSES):
        raise DataError(
            f"{path} holds {len(present)} classes ({', '.join(present[:12])}); "
            f"the {len(CLASSES)} of CIFAR-10 are expected."
        )
    order = sorted(found)
    images = np.stack([found[name][1] for name in order]).transpose(0, 3, 1, 2)
    labels = np.array([CLASSES.index(found[name][0]) for name in order], dtype=np.int64)
    return np.ascontiguousarray(images), labels
