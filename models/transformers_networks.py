"""Image classifiers of Hugging Face transformers, with the files that the hub has beside their weights."""

import dataclasses
import json

import numpy as np
import torch


class Logits(torch.nn.Module):
    """What a classifier says of images, without the rest of its output."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, image):
        return self.network(pixel_values=image).logits


@dataclasses.dataclass
class Classifier:
    network: torch.nn.Module
    size: tuple  # height, width
    labels: list  # None where the network was given no names
    files: dict  # name: text, as the hub has them
    transform: object  # a PIL image to float32 C x H x W


def labels_of(config):
    labels = [config.id2label[number] for number in sorted(config.id2label)]
    return None if labels == [f"LABEL_{number}" for number in range(len(labels))] else labels


def processor_file(processor):
    """preprocessor_config.json, with the name of the class that the hub's files have."""
    file = json.loads(processor.to_json_string())
    for ending in ("Pil", "Fast"):
        file["image_processor_type"] = file["image_processor_type"].removesuffix(ending)
    return json.dumps(file, indent=2) + "\n"


def made(name, trained):
    """name: of the hub, or a folder with its files; without trained config.json and preprocessor_config.json are enough, and the
    weights are what the constructor draws."""
    import transformers

    classes = transformers.AutoModelForImageClassification
    config = transformers.AutoConfig.from_pretrained(name)
    network = classes.from_pretrained(name) if trained else classes.from_config(config)
    processor = transformers.AutoImageProcessor.from_pretrained(name, backend="pil")

    def transform(image):
        return np.asarray(processor(image.convert("RGB"), return_tensors="np")["pixel_values"][0], np.float32)

    from PIL import Image

    size = transform(Image.new("RGB", (640, 480))).shape[1:]
    files = {"config.json": config.to_json_string(use_diff=False), "preprocessor_config.json": processor_file(processor)}
    return Classifier(Logits(network).eval(), tuple(size), labels_of(config), files, transform)
