#!/usr/bin/env python3
"""Makes a model folder that convoyd serves from a network of torchvision, timm or transformers, or from a file.

    python3 models/from_pytorch.py resnet50                        torchvision's, with its weights
    python3 models/from_pytorch.py timm:convnext_tiny.fb_in1k      timm's
    python3 models/from_pytorch.py transformers:google/vit-base-patch16-224
                                                                   the Hugging Face hub's, or those of a folder
    python3 models/from_pytorch.py trained.pt --name mine --size 224
    python3 models/from_pytorch.py trained.onnx --name mine --preset imagenet

writes models/NAME with 1/model.onnx, config.json (the network's own preprocessing; of transformers the hub's files, with
convoyd-model.json), labels.txt (ImageNet's, where the library has them) and verify.json, the answer of ONNX Runtime to a test image beside it: `convoy verify NAME` asks
a running daemon for the same. Needs PyTorch, onnx, onnxscript, onnxruntime, NumPy and Pillow, and torchvision, timm or
transformers for their networks; a file.onnx needs no PyTorch."""

import argparse
import json
import pathlib
import re
import shutil
import sys
import typing

SUFFIXES = (".onnx", ".pt", ".pth")
MOST_ERROR = 1e-3  # of the largest value, between PyTorch and ONNX Runtime


class Unfit(Exception):
    """A sentence for the user."""


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("network", help="NAME, torchvision:NAME, timm:NAME, transformers:NAME, FILE.pt, FILE.pth or FILE.onnx")
    add("--out", type=pathlib.Path, default=pathlib.Path("models"), help="the folder of all models (default models)")
    add("--name", help="the model's name (default: the network's, or the file's)")
    add("--force", action="store_true", help="replace a model of that name")
    add("--random", action="store_true", help="random weights, to try a network without downloading any")
    add("--seed", type=int, default=1, help="of the random weights (default 1)")
    add("--precision", choices=["fp32", "tf32", "fp16"], default="fp32", help="of config.json (default fp32)")
    add("--exporter", choices=["dynamo", "torchscript"], default="dynamo", help="of PyTorch's (default dynamo)")
    add("--opset", type=int, help="of the file (default: the exporter's)")
    add("--size", type=int, nargs="+", metavar="N", help="height and width of a file's images, where it leaves them open")
    add("--preset", help="of a file's preprocessing: imagenet (default), imagenet-inception, clip or none")
    add("--labels", type=pathlib.Path, metavar="FILE", help="a label a line, in place of ImageNet's")
    add("--trust", action="store_true", help="a pickled module may run any program when it is read: read it anyway")
    options = parser.parse_args()
    if options.size and len(options.size) > 2:
        parser.error("--size is one number or two: height and width")
    options.size = tuple(options.size * (3 - len(options.size))) if options.size else None
    options.file = pathlib.Path(options.network) if options.network.endswith(SUFFIXES) else None
    if options.file is None and (options.size or options.preset):
        parser.error("--size and --preset are for files: a network of a library knows its own")
    options.preset = options.preset or "imagenet"
    name = options.file.stem if options.file else options.network.partition(":")[2] or options.network
    if options.network.startswith("transformers:"):
        name = pathlib.PurePath(name).name
    options.name = options.name or re.sub(r"[^A-Za-z0-9._-]", "_", name)
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}", options.name):
        parser.error(f"'{options.name}' cannot be a model's name: letters, digits, '.', '_' and '-'")
    return options


def transformers_network(options, folder):
    """(network, size, Preparation, labels); writes the hub's files into the folder."""
    import preprocessing
    import pytorch_networks
    import torch
    import transformers_networks

    torch.manual_seed(options.seed)
    name = options.network.partition(":")[2]
    try:
        made = transformers_networks.made(name, not options.random)
    except (OSError, ValueError) as error:
        raise Unfit(f"{name} is not to be had as a classifier of transformers: {str(error).splitlines()[0].rstrip('.')}.") from error
    if options.random:
        pytorch_networks.calibrated(pytorch_networks.livened(made.network), made.size, images=4, batches=1)
    for name, text in made.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return made.network, made.size, preprocessing.Preparation(None, made.transform), made.labels


def library_network(options):
    """(network, size, Preparation, labels)"""
    import preprocessing
    import pytorch_networks
    import torch

    source, name = pytorch_networks.find(options.network)
    torch.manual_seed(options.seed)
    network, size = pytorch_networks.made(source, name, trained=not options.random)
    if options.random:
        pytorch_networks.livened(network)
        pytorch_networks.calibrated(network, size, images=4, batches=1)
    if source == "timm":
        import timm.data

        subset = timm.data.infer_imagenet_subset(network)
        labels = timm.data.ImageNetInfo(subset).label_descriptions() if subset else None
        return network, size, preprocessing.of_timm(network), labels
    weights = pytorch_networks.weights_of(name)
    if weights is None:
        return network, size, preprocessing.of_preset("imagenet", size, 3), None
    return network, size, preprocessing.of_torchvision(weights), weights.meta.get("categories")


def read_module(options):
    """The module of a .pt file: TorchScript, or with --trust a pickled one."""
    import torch

    try:
        return torch.jit.load(str(options.file), map_location="cpu").eval(), "torchscript"
    except RuntimeError as error:
        if not options.trust:
            raise Unfit(
                f"{options.file} is no TorchScript; a pickled module is read with --trust alone, because it may "
                f"run any program ({str(error).splitlines()[0]})."
            ) from error
    module = torch.load(str(options.file), map_location="cpu", weights_only=False)
    if not isinstance(module, torch.nn.Module):
        raise Unfit(f"{options.file} holds weights alone: save the whole module, or export it to ONNX.")
    return module.eval(), options.exporter


class FileInput(typing.NamedTuple):
    """Of an ONNX file; a side is 0 where it is open."""

    channels: int
    height: int
    width: int
    channels_last: bool
    dtype: type  # of NumPy


def is_turned(graph, name):
    """Whether the first Transpose behind the input, casts aside, brings channels to the front."""
    for node in graph.node:
        if name not in node.input:
            continue
        if node.op_type == "Cast":
            name = node.output[0]
        elif node.op_type == "Transpose":
            return any(each.name == "perm" and list(each.ints) == [0, 3, 1, 2] for each in node.attribute)
    return False


def input_of(path):
    """The FileInput of an ONNX file's only input."""
    import numpy as np
    import onnx

    dtypes = {
        onnx.TensorProto.FLOAT: np.float32,
        onnx.TensorProto.FLOAT16: np.float16,
        onnx.TensorProto.UINT8: np.uint8,
    }
    model = onnx.load(path, load_external_data=False)
    constants = {tensor.name for tensor in model.graph.initializer}
    given = [each for each in model.graph.input if each.name not in constants]
    shape = given[0].type.tensor_type.shape.dim if given else []
    if len(given) != 1 or len(shape) != 4:
        raise Unfit(f"{path} does not have one input of four dimensions, so it reads no images.")
    dtype = dtypes.get(given[0].type.tensor_type.elem_type)
    if dtype is None:
        raise Unfit(f"{path} reads other numbers than float32, float16 and uint8.")
    sides = [max(each.dim_value, 0) for each in shape]
    colours = (1, 3, 4)
    if is_turned(model.graph, given[0].name) or (sides[3] in colours and sides[1] not in colours):
        return FileInput(sides[3], sides[1], sides[2], True, dtype)
    return FileInput(*sides[1:], False, dtype)


def copy_onnx(path, folder):
    """The file, and what it keeps its weights in."""
    import onnx

    shutil.copyfile(path, folder / "model.onnx")
    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        for entry in tensor.external_data:
            if entry.key != "location":
                continue
            if pathlib.PurePath(entry.value).name != entry.value:
                raise Unfit(f"{path} keeps weights in '{entry.value}': only files beside it are taken.")
            if not (folder / entry.value).exists():
                shutil.copyfile(path.parent / entry.value, folder / entry.value)


def config_of(preparation, labels, precision):
    """preparation without keys: the hub's files have them, and the labels."""
    if preparation.keys is None:
        return json.dumps({"precision": precision}, indent=4) + "\n"
    config = {"labels": "labels.txt"} if labels else {}
    config["input"] = preparation.keys
    config["output"] = {"activation": "auto"}
    config["precision"] = precision
    text = json.dumps(config, indent=4)
    for values in preparation.keys.values():
        if isinstance(values, list):
            text = text.replace(json.dumps(values, indent=4).replace("\n", "\n        "), json.dumps(values))
    return text + "\n"


def write_network(options, folder):
    """folder/1/model.onnx. Returns (the network, where PyTorch has it; Preparation; labels; FileInput of a file)"""
    import numpy as np
    import preprocessing

    path = folder / "1" / "model.onnx"
    if options.file and not options.file.is_file():
        raise Unfit(f"{options.file} is no file.")
    if options.file and options.file.suffix == ".onnx":
        copy_onnx(options.file, path.parent)
        given = input_of(path)
        given = given._replace(channels=given.channels or 3)
        size = (given.height or (options.size or (0, 0))[0], given.width or (options.size or (0, 0))[1])
        if not all(size):
            raise Unfit(f"{options.file} leaves the size of its images open: name it with --size.")
        if given.dtype is np.uint8 and options.preset != "none":
            raise Unfit(f"{options.file} reads pixels from 0 to 255 and normalises them itself: take --preset none.")
        preparation = preprocessing.of_preset(options.preset, size, given.channels)
        if not (given.height and given.width):
            preparation.keys.update(height=size[0], width=size[1])
        if given.channels_last:
            preparation.keys.update(layout="nhwc")
        return None, preparation, None, given
    import pytorch_export

    exporter, labels = options.exporter, None
    if options.file:
        network, exporter = read_module(options)
        size = options.size or (224, 224)
        preparation = preprocessing.of_preset(options.preset, size, 3)
    elif options.network.startswith("transformers:"):
        network, size, preparation, labels = transformers_network(options, folder)
    else:
        network, size, preparation, labels = library_network(options)
    open_batch = pytorch_export.export(network, size, path, exporter, options.opset)
    if not open_batch:
        print("from_pytorch.py: the exporter fixed the batch to one image", file=sys.stderr)
    return network, preparation, labels, None


def check(network, pixels, outputs):
    """ONNX Runtime must give for the file what PyTorch gives for the network. Returns by how much they differ."""
    import numpy as np
    import torch

    with torch.no_grad():
        answer = network(torch.from_numpy(pixels))
    wanted = (answer[0] if isinstance(answer, (list, tuple)) else answer).numpy()
    error = np.abs(outputs[0] - wanted).max() / np.abs(wanted).max()
    if not error < MOST_ERROR:
        raise Unfit(f"the exported file differs from PyTorch by {error:.1e} of the largest output.")
    return error


def make(options, folder):
    """All of the model's folder. Returns the lines that tell of it."""
    import numpy as np
    import verify_record

    network, preparation, labels, given = write_network(options, folder)
    hub = preparation.keys is None
    if options.labels:
        labels = options.labels.read_text(encoding="utf-8").splitlines()
    if labels and (options.labels or not hub):
        labels = [" ".join(label.split()) for label in labels]
        (folder / "labels.txt").write_text("".join(f"{label}\n" for label in labels), encoding="utf-8")
    (folder / ("convoyd-model.json" if hub else "config.json")).write_text(config_of(preparation, labels, options.precision), encoding="utf-8")
    image = verify_record.draw_image()
    pixels = np.ascontiguousarray(preparation.transform(image))[None]
    if given and given.channels_last:
        pixels = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
    if given:
        pixels = (np.rint(pixels) if given.dtype is np.uint8 else pixels).astype(given.dtype)
    path = folder / "1" / "model.onnx"
    outputs, record = verify_record.written(folder, path, image, pixels, labels, options.precision)
    if network is not None:
        yield f"the export differs from PyTorch by {check(network, pixels, outputs):.1e} of the largest output"
    size = sum(each.stat().st_size for each in path.parent.iterdir())
    best = record["classes"][0]
    yield f"{size:,} bytes, {outputs[0].size} classes, {len(labels) if labels else 'no'} labels"
    yield f"the test image is {best['label'] or best['index']} ({best['probability']:.4f}), says {record['by']}"


def main():
    options = arguments()
    folder, new = options.out / options.name, options.out / f".{options.name}.new"
    if folder.exists() and not options.force:
        raise Unfit(f"{folder} exists: name another with --name, or replace it with --force.")
    shutil.rmtree(new, ignore_errors=True)
    try:
        (new / "1").mkdir(parents=True)
        for line in make(options, new):
            print(line)
        if folder.exists():
            shutil.rmtree(folder)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    print(f"{folder} is written; with convoyd --models {options.out} running: convoy verify --models {options.out} {options.name}")


def known_errors():
    """What is a sentence and no traceback."""
    errors = [Unfit, OSError, ValueError]
    try:
        import preprocessing

        errors.append(preprocessing.Inexpressible)
        import pytorch_networks

        errors.append(pytorch_networks.NoNetwork)
    except ImportError:
        pass
    return tuple(errors)


if __name__ == "__main__":
    try:
        main()
    except ImportError as missing:
        sys.exit(f"from_pytorch.py: {missing.name or missing} is missing; install it for this Python ({sys.executable}).")
    except known_errors() as error:
        sys.exit(f"from_pytorch.py: {error}")
