#!/usr/bin/env python3
"""Writes the small networks under tests/data/networks and tests/data/forms with PyTorch's two ONNX exporters.

    python3 tests/tools/export_networks.py [--out tests/data] [--ops FILE] [NAME ...]

The networks are torchvision's resnet18, mobilenet_v2 and mobilenet_v3_small with few channels: the same
blocks, strides and operators, so that their graphs have the shape that users bring, in files of some ten
kilobytes; and under forms what exporters write in many nodes (Slices, SequenceFirst, CosineWindows). They are not trained. Weights and the running statistics of every batch norm are random with a
fixed seed, because fresh statistics (mean 0, variance 1) would hide a batch norm that is folded wrongly.

Each network lies as the ONNX conformance cases do: NAME/model.onnx, NAME/test_data_set_0/input_0.pb (float32,
N x 3 x 34 x 34) and output_0.pb (float32, N x 10), the answer of ONNX Runtime. N is 3, or 1 where the file
fixes the batch. 34 pixels become 17, 9, 5, 3 and 2 on the way down, so odd sizes under stride 2 occur.

Needs torch, torchvision, onnx, onnxscript, onnxruntime and numpy. The files in the repository were made with
PyTorch 2.11, those of the forms with 2.15."""

import argparse
import collections
import io
import logging
import pathlib
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
import torchvision
from onnx import TensorProto, helper, numpy_helper
from torchvision.models import mobilenetv2, mobilenetv3, resnet
from torchvision.ops.misc import Conv2dNormActivation

CLASSES = 10
SIZE = 34
BATCH = 3
SEED = 20261121
LARGEST_FILE = 250 * 1000


class SmallResNet(resnet.ResNet):
    """resnet18's blocks with widths 4, 6, 8 and 12; torchvision's own constructor fixes 64 at the stem."""

    def __init__(self, widths=(4, 6, 8, 12)):
        torch.nn.Module.__init__(self)
        self._norm_layer = torch.nn.BatchNorm2d
        self.inplanes, self.dilation, self.groups, self.base_width = widths[0], 1, 1, 64
        self.conv1 = torch.nn.Conv2d(3, widths[0], 7, stride=2, padding=3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(widths[0])
        self.relu = torch.nn.ReLU(inplace=True)
        self.maxpool = torch.nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = self._make_layer(resnet.BasicBlock, widths[0], 2)
        self.layer2 = self._make_layer(resnet.BasicBlock, widths[1], 2, stride=2)
        self.layer3 = self._make_layer(resnet.BasicBlock, widths[2], 2, stride=2)
        self.layer4 = self._make_layer(resnet.BasicBlock, widths[3], 2, stride=2)
        self.avgpool = torch.nn.AdaptiveAvgPool2d((1, 1))
        self.fc = torch.nn.Linear(widths[3], CLASSES)


def small_mobilenet_v2():
    """mobilenet_v2 at a tenth of its width; the last convolution, 1280 wide at any width, is cut to 40."""
    blocks = [
        [1, 16, 1, 1],
        [6, 24, 2, 2],
        [6, 32, 2, 2],
        [6, 64, 1, 2],
        [6, 96, 1, 1],
        [6, 160, 1, 2],
        [6, 320, 1, 1],
    ]
    net = mobilenetv2.MobileNetV2(CLASSES, width_mult=0.1, inverted_residual_setting=blocks, round_nearest=4)
    last = net.features[-1][0].in_channels
    net.features[-1] = Conv2dNormActivation(last, 40, kernel_size=1, activation_layer=torch.nn.ReLU6)
    net.classifier = torch.nn.Sequential(torch.nn.Dropout(0.2), torch.nn.Linear(40, CLASSES))
    return net


def small_mobilenet_v3():
    """mobilenet_v3_small at a tenth of its width, all eleven blocks."""
    blocks, _ = mobilenetv3._mobilenet_v3_conf("mobilenet_v3_small", width_mult=0.1)
    return mobilenetv3.MobileNetV3(blocks, last_channel=32, num_classes=CLASSES)


class Slices(torch.nn.Module):
    """Slices that are written, with gaps and without, gathered channels, and a norm over neighbouring channels:
    ScatterND, ScatterElements, GatherElements and a pool of three dimensions. With uneven pooling, which only the
    new exporter writes, GatherND."""

    def __init__(self, uneven=False):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.Conv2d(8, 8, 3, 1, 1)
        self.norm = torch.nn.LocalResponseNorm(3, alpha=0.5)
        self.pool = torch.nn.AdaptiveAvgPool2d((5, 7)) if uneven else torch.nn.AvgPool2d((4, 3), (3, 2))
        self.fc = torch.nn.Linear(8 * 5 * (7 if uneven else 8), CLASSES)
        self.register_buffer("places", torch.tensor([5, 3, 0, 7, 1, 1, 6, 2]).view(1, 8, 1, 1))

    def forward(self, x):
        x = self.norm(torch.relu(self.first(x)))
        y, z = x.clone(), self.second(x)
        y[:, 1:7:2, 1:-1, 1::3] = z[:, 1:4, :-2, ::3]
        y[:, 0] = x[:, 7] * z[:, 3]
        y[..., 4:] += x[..., :-4]
        return self.fc(torch.flatten(self.pool(torch.gather(y, 1, self.places.expand_as(y))), 1))


class SequenceFirst(torch.nn.Module):
    """Attention of PyTorch's own module, whose batch is the second dimension, and parts that are stacked before the
    batch."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 5, 5)
        self.attention = torch.nn.MultiheadAttention(8, 2)
        self.fc = torch.nn.Linear(4 * 36, CLASSES)

    def forward(self, x):
        x = self.first(x).flatten(2).permute(2, 0, 1)
        x = self.attention(x, x, x)[0].permute(1, 2, 0)
        return self.fc(torch.flatten(torch.stack(x.chunk(2, 1), 0).amax(0), 1))


class CosineWindows(torch.nn.Module):
    """Attention of windows as Swin v2 has it: queries and keys of unit length, a factor for each head, a bias."""

    def __init__(self):
        super().__init__()
        self.first, self.fc = torch.nn.Conv2d(3, 32, 4, 4), torch.nn.Linear(32, CLASSES)
        self.qkv, self.project = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)
        self.norm = torch.nn.LayerNorm(32)
        self.factor = torch.nn.Parameter(torch.tensor([0.7, 2.1]).view(2, 1, 1))
        self.bias = torch.nn.Parameter(torch.sin(torch.arange(512.0)).view(1, 2, 16, 16))

    def attend(self, x):
        rows = x.reshape(-1, 2, 4, 2, 4, 32).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 32)
        q, k, v = self.qkv(rows).reshape(-1, 16, 3, 2, 16).permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.nn.functional.normalize(q, dim=-1) @ torch.nn.functional.normalize(k, dim=-1).transpose(-2, -1)
        scores = scores * torch.clamp(self.factor, max=4.6).exp() + 16 * torch.sigmoid(self.bias)
        rows = self.project((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, 16, 32))
        return rows.reshape(-1, 2, 2, 4, 4, 32).permute(0, 1, 3, 2, 4, 5).reshape(-1, 8, 8, 32)

    def forward(self, x):
        x = self.first(x).permute(0, 2, 3, 1)
        x = x + self.norm(self.attend(x))
        x = x + self.norm(torch.roll(self.attend(torch.roll(x, (-2, -2), (1, 2))), (2, 2), (1, 2)))
        return self.fc(x.mean((1, 2)))


NETWORKS = {
    "resnet18": SmallResNet,
    "mobilenet_v2": small_mobilenet_v2,
    "mobilenet_v3_small": small_mobilenet_v3,
    "sequence_first": SequenceFirst,
    "slices": Slices,
    "slices_uneven": lambda: Slices(uneven=True),
    "windows_cosine": CosineWindows,
}
FORMS = ("sequence_first", "slices", "slices_uneven", "windows_cosine")


def randomise(net, rng):
    """He-scaled weights, and batch norms with means, variances, scales and shifts that all matter."""

    def fill(tensor, values):
        tensor.copy_(torch.from_numpy(np.asarray(values, dtype=np.float32)))

    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
                shape = tuple(module.weight.shape)
                fill(module.weight, rng.standard_normal(shape) * np.sqrt(2.0 / np.prod(shape[1:])))
                if module.bias is not None:
                    fill(module.bias, rng.standard_normal(shape[0]) * 0.1)
            elif isinstance(module, torch.nn.BatchNorm2d):
                k = module.num_features
                fill(module.running_mean, rng.standard_normal(k) * 0.3)
                fill(module.running_var, rng.uniform(0.5, 2.0, k))
                fill(module.weight, rng.uniform(0.6, 1.4, k))
                fill(module.bias, rng.standard_normal(k) * 0.2)
    return net.eval()


def random_images(rng, count):
    """Blotches of low frequency, each image with its own contrast, and noise: white noise alone averages out
    in pooling."""
    coarse = torch.from_numpy(rng.standard_normal((count, 3, 5, 5)).astype(np.float32))
    smooth = torch.nn.functional.interpolate(
        coarse, size=(SIZE, SIZE), mode="bilinear", align_corners=False
    ).numpy()
    contrast = np.linspace(0.7, 1.6, count).reshape(count, 1, 1, 1)
    return (smooth * contrast + 0.2 * rng.standard_normal(smooth.shape)).astype(np.float32)


def export_old(net, example, path, opset, keep_batch_norm=False, fixed=False):
    """The TorchScript exporter. It folds batch norm into convolutions itself unless it is told to keep the
    training mode it finds, which leaves BatchNormalization nodes and their inference form in the file."""
    torch.onnx.export(
        net,
        (example,),
        str(path),
        dynamo=False,
        opset_version=opset,
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes=None if fixed else {"image": {0: "batch"}, "logits": {0: "batch"}},
        do_constant_folding=not keep_batch_norm,
        training=torch.onnx.TrainingMode.PRESERVE if keep_batch_norm else torch.onnx.TrainingMode.EVAL,
    )


def export_new(net, example, path, opset=None, fixed=False, external=False):
    """The exporter over torch.export. With external=True the weights go to model.onnx.data beside the
    model."""
    shapes = None if fixed else ({0: torch.export.Dim("batch")},)
    torch.onnx.export(
        net,
        (example,),
        str(path),
        dynamo=True,
        opset_version=opset,
        input_names=["image"],
        output_names=["logits"],
        dynamic_shapes=shapes,
        external_data=external,
        verbose=False,
    )


def store_weights_as_fp16(path):
    """Every float32 initializer becomes float16 followed by a Cast, as converters that halve the file's size
    leave it."""
    model = onnx.load(path)
    casts = []
    for tensor in model.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT:
            continue
        half = numpy_helper.from_array(
            numpy_helper.to_array(tensor).astype(np.float16), tensor.name + "_fp16"
        )
        casts.append(
            helper.make_node(
                "Cast", [half.name], [tensor.name], name="cast_" + tensor.name, to=TensorProto.FLOAT
            )
        )
        tensor.CopyFrom(half)
    nodes = casts + list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.checker.check_model(model)
    onnx.save(model, path)


# name: (network, how to export it); each takes (net, example, path).
CASES = {
    "resnet18_old_op7_bn": ("resnet18", lambda n, x, p: export_old(n, x, p, 7, keep_batch_norm=True)),
    "resnet18_old_op11": ("resnet18", lambda n, x, p: export_old(n, x, p, 11)),
    "resnet18_old_op17": ("resnet18", lambda n, x, p: export_old(n, x, p, 17)),
    "resnet18_new_op18": ("resnet18", lambda n, x, p: export_new(n, x, p, 18)),
    "resnet18_new_op18_fixed": ("resnet18", lambda n, x, p: export_new(n, x, p, 18, fixed=True)),
    "resnet18_new_op18_external": ("resnet18", lambda n, x, p: export_new(n, x, p, 18, external=True)),
    "resnet18_old_op17_fp16": (
        "resnet18",
        lambda n, x, p: (export_old(n, x, p, 17), store_weights_as_fp16(p)),
    ),
    "mobilenet_v2_old_op9": ("mobilenet_v2", lambda n, x, p: export_old(n, x, p, 9)),
    "mobilenet_v2_old_op17_bn": (
        "mobilenet_v2",
        lambda n, x, p: export_old(n, x, p, 17, keep_batch_norm=True),
    ),
    "mobilenet_v2_new_default": ("mobilenet_v2", lambda n, x, p: export_new(n, x, p)),
    "mobilenet_v3_small_old_op11": ("mobilenet_v3_small", lambda n, x, p: export_old(n, x, p, 11)),
    "mobilenet_v3_small_old_op17": ("mobilenet_v3_small", lambda n, x, p: export_old(n, x, p, 17)),
    "sequence_first_old_op17": ("sequence_first", lambda n, x, p: export_old(n, x, p, 17)),
    "sequence_first_old_op17_fixed": (
        "sequence_first",
        lambda n, x, p: export_old(n, x, p, 17, fixed=True),
    ),
    "slices_old_op17": ("slices", lambda n, x, p: export_old(n, x, p, 17)),
    "slices_old_op17_fixed": ("slices", lambda n, x, p: export_old(n, x, p, 17, fixed=True)),
    "slices_new_default": ("slices", lambda n, x, p: export_new(n, x, p)),
    "slices_uneven_new_default": ("slices_uneven", lambda n, x, p: export_new(n, x, p)),
    "windows_cosine_old_op17": ("windows_cosine", lambda n, x, p: export_old(n, x, p, 17)),
    "windows_cosine_new_default": ("windows_cosine", lambda n, x, p: export_new(n, x, p)),
    "mobilenet_v3_small_new_op21": ("mobilenet_v3_small", lambda n, x, p: export_new(n, x, p, 21)),
}


def strip_notes(path):
    """The exporters write the stack traces and file names of the exporting program into the model: nothing of
    that may travel, and it is larger than the weights."""
    model = onnx.load(path, load_external_data=False)
    del model.metadata_props[:]
    model.doc_string = ""
    graph = model.graph
    graph.doc_string = ""
    for items in ([graph], graph.node, graph.input, graph.output, graph.value_info, graph.initializer):
        for item in items:
            item.doc_string = ""
            del item.metadata_props[:]
    onnx.save(model, path)


def write_tensor(path, array, name):
    path.write_bytes(numpy_helper.from_array(np.ascontiguousarray(array), name).SerializeToString())


def describe(path):
    """The operators of a file with the forms that matter to a reader, for the report."""
    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    counts = collections.Counter(node.op_type for node in graph.node)
    opsets = ", ".join(f"{o.domain or 'ai.onnx'} {o.version}" for o in model.opset_import)
    out = io.StringIO()
    dims = [d.dim_param or d.dim_value for d in graph.input[0].type.tensor_type.shape.dim]
    print(
        f"{path.parent.name}: IR {model.ir_version}, opset {opsets}, input {graph.input[0].name} {dims}, "
        f"functions {len(model.functions)}, {path.stat().st_size} bytes",
        file=out,
    )
    print("  " + ", ".join(f"{op} {n}" for op, n in sorted(counts.items())), file=out)
    seen = set()
    constants = {t.name: t for t in graph.initializer}
    for node in graph.node:
        inputs = ["-" if not i else "const" if i in constants else "tensor" for i in node.input]
        if node.op_type in ("Reshape", "ReduceMean", "Clip"):
            inputs = [
                numpy_helper.to_array(constants[i]).tolist() if i in constants else "tensor"
                for i in node.input
            ]
            inputs = [str(i) for i in inputs]
        attributes = sorted(
            (
                f"{a.name}={helper.get_attribute_value(a)}"
                if a.type != onnx.AttributeProto.TENSOR
                else f"{a.name}=tensor"
            )
            for a in node.attribute
        )
        form = f"  {node.op_type}({', '.join(inputs)}) {' '.join(attributes)}"
        if form not in seen:
            seen.add(form)
            print("  " + form, file=out)
    if model.functions:
        print("    functions: " + ", ".join(f.name for f in model.functions), file=out)
    return out.getvalue()


def make_case(name, folder):
    kind, export = CASES[name]
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("model.onnx*"):
        old.unlink()
    # The seed depends on the network alone: every export of one network has the same weights and the same
    # input.
    rng = np.random.default_rng([SEED, sorted(NETWORKS).index(kind)])
    net = randomise(NETWORKS[kind](), rng)
    images = random_images(rng, BATCH)
    if name.endswith("_fixed"):
        images = images[:1]
    path = folder / "model.onnx"
    example = torch.from_numpy(images)
    export(net, example, path)
    strip_notes(path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    answer = session.run(None, {session.get_inputs()[0].name: images})[0]
    with torch.no_grad():
        expected = net(example).numpy()
    # Half-precision weights change the answer; everything else must be the network that went in.
    bound = 3e-2 if name.endswith("_fp16") else 1e-4
    error = np.abs(answer - expected).max() / np.abs(expected).max()
    if not error < bound:
        raise SystemExit(f"{name}: ONNX Runtime and PyTorch differ by {error:.2e} of the largest output")
    spread = np.abs(expected - expected.mean(axis=0)).max() / np.abs(expected).max() if len(images) > 1 else 1
    if spread < 0.05:
        raise SystemExit(
            f"{name}: the answers to different images are within {spread:.3f} of each other; no test"
        )
    data = folder / "test_data_set_0"
    data.mkdir(exist_ok=True)
    write_tensor(data / "input_0.pb", images, "image")
    write_tensor(data / "output_0.pb", answer, "logits")
    size = sum(f.stat().st_size for f in folder.glob("model.onnx*"))
    if size > LARGEST_FILE:
        raise SystemExit(f"{name}: {size} bytes are over the limit of {LARGEST_FILE}; use fewer channels")
    print(
        f"{name}: {size} bytes, |ONNX Runtime - PyTorch| {error:.1e}, spread over images {spread:.2f}",
        flush=True,
    )
    return describe(path)


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Writes the small test networks.")
    parser.add_argument("names", nargs="*", help="only these cases")
    parser.add_argument("--out", type=pathlib.Path, default=here.parent / "data")
    parser.add_argument("--ops", type=pathlib.Path, help="write each file's operators and their forms here")
    arguments = parser.parse_args()
    unknown = [n for n in arguments.names if n not in CASES]
    if unknown:
        raise SystemExit(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    print(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}, onnx {onnx.__version__}")
    folders = {name: "forms" if CASES[name][0] in FORMS else "networks" for name in CASES}
    reports = [make_case(name, arguments.out / folders[name] / name) for name in arguments.names or CASES]
    if arguments.ops:
        arguments.ops.write_text("\n".join(reports))


if __name__ == "__main__":
    sys.exit(main())
