"""Classifiers of Hugging Face transformers for the survey, as optimum writes them: input pixel_values with all four dimensions open,
output logits. Of each model type the network of its default configuration, with at most MOST_LAYERS equal layers in a row, and
with random weights."""

import copy
import pathlib
import shutil
import tempfile

import survey_forms
import torch
import transformers
from survey_pytorch import with_drawn_weights
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES

OPSETS = (17, 18)  # the first that has all operators
MOST_LAYERS = 4  # what is left out are the same layers once more
MOST_SIDE = 256
LEAST_VARIANCE = 0.01  # of the mean's square
CLASSES = 100
USUAL_SIDE = 224  # where the configuration has none
AXES = {"pixel_values": {0: "batch_size", 1: "num_channels", 2: "height", 3: "width"}, "logits": {0: "batch_size"}}


class Logits(torch.nn.Module):
    """transformers' networks return dictionaries, most with logits."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, pixel_values):
        answer = self.network(pixel_values=pixel_values)
        return answer.logits if "logits" in answer else answer[0]


def names():
    return sorted(MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES)


def shortened(configuration):
    """Changes the configuration to few layers, those of its parts too."""
    for part in (configuration, *(getattr(configuration, key, None) for key in ("vision_config", "text_config"))):
        layers = getattr(part, "num_hidden_layers", None)
        depths = getattr(part, "depths", None)
        if isinstance(layers, int) and depths is None and layers > MOST_LAYERS:
            part.num_hidden_layers = MOST_LAYERS
        if depths is not None:
            part.depths = type(depths)(min(depth, MOST_LAYERS) for depth in depths)
    return configuration


def size_of(configuration):
    side = getattr(configuration, "image_size", None) or getattr(getattr(configuration, "vision_config", None), "image_size", None)
    size = (side, side) if isinstance(side, int) else tuple(side or (USUAL_SIDE, USUAL_SIDE))
    return size if max(size) <= MOST_SIDE else (USUAL_SIDE, USUAL_SIDE)


def steadied(network):
    """No channel's statistics say that it hardly varies: random images are alike once they are averaged (before LeViT's last layer),
    and a division by how they differ would show rounding alone."""
    for part in network.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            part.running_var.clamp_(min=LEAST_VARIANCE * part.running_mean.square().mean().item())
    return network


def network_of(kind, seed):
    """(the network, (height, width) of its images)"""
    torch.manual_seed(seed)
    configuration = transformers.AutoConfig.for_model(kind)
    if kind == "efficientnet":  # the 64 layers of B7 become B0's
        configuration.width_coefficient = configuration.depth_coefficient = 1.0
        configuration.hidden_dim = 1280
    elif kind != "timm_wrapper":
        configuration = shortened(configuration)
    size = size_of(configuration)
    configuration.num_labels = CLASSES
    classes = MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES[kind]
    configuration.architectures = [classes if isinstance(classes, str) else classes[0]]
    network = transformers.AutoModelForImageClassification.from_config(configuration).eval()
    return steadied(with_drawn_weights(Logits(network), size)), size


def export(network, size, path, exporter):
    """Raises what the exporter raises."""
    example = torch.randn(2, 3, *size)
    names = {"input_names": ["pixel_values"], "output_names": ["logits"]}
    if exporter.startswith("dynamo"):
        shapes = ({0: torch.export.Dim("batch_size")},) if exporter == "dynamo" else None
        example = example if exporter == "dynamo" else example[:1]
        torch.onnx.export(network, (example,), str(path), dynamo=True, dynamic_shapes=shapes, external_data=True, verbose=False, **names)
        return
    for opset in OPSETS:
        axes = copy.deepcopy(AXES)  # the exporter adds to it
        try:
            torch.onnx.export(network, (example,), str(path), dynamo=False, opset_version=opset, dynamic_axes=axes, **names)
            return
        except torch.onnx.errors.UnsupportedOperatorError:
            if opset == OPSETS[-1]:
                raise


def write(source, name, exporter, seed, path):
    torch.set_num_threads(1)
    network, size = network_of(name, seed)
    about = {"parameters": sum(each.numel() for each in network.parameters()), "image": [3, *size]}
    about["open_batch"] = exporter != "dynamo-one"
    if not exporter.startswith("dynamo"):
        about["input"] = {"height": size[0], "width": size[1]}
    if exporter not in survey_forms.FORMS:
        export(network, size, path, exporter)
        return about
    folder = pathlib.Path(tempfile.mkdtemp(dir=path.parent))
    try:
        export(network, size, folder / "model.onnx", "torchscript")
        about.update(survey_forms.write(folder / "model.onnx", exporter, path))
    finally:
        shutil.rmtree(folder)
    return about
