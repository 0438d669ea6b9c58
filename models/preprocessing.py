"""How a network's images were prepared when it was trained, as keys of config.json, and what ONNX Runtime has to
be given for a picture."""

import dataclasses
import typing

import numpy as np

INTERPOLATIONS = ("bilinear", "bicubic", "lanczos", "nearest")
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # Pillow's, by channels
# The daemon's presets: resize, crop_fraction, interpolation, scale, mean, std (docs/configuration.md).
PRESETS = {
    "imagenet": ("crop", 0.875, "bilinear", 1 / 255, IMAGENET_MEAN, IMAGENET_STD),
    "imagenet-inception": ("crop", 0.875, "bicubic", 1 / 255, 0.5, 0.5),
    "clip": ("crop", 1.0, "bicubic", 1 / 255, CLIP_MEAN, CLIP_STD),
    "none": ("stretch", None, "bilinear", 1.0, 0.0, 1.0),
}


class Inexpressible(Exception):
    """A sentence: config.json has no keys for what the network's transforms do."""


@dataclasses.dataclass
class Preparation:
    keys: dict  # of config.json's "input"
    transform: typing.Callable  # a PIL image to float32 C x H x W


def checked_interpolation(name):
    if name not in INTERPOLATIONS:
        raise Inexpressible(f"its images are resized by '{name}', the daemon has {', '.join(INTERPOLATIONS)}.")
    return name


def of_torchvision(weights):
    """From the transforms of torchvision's weights."""
    transforms = weights.transforms()
    keys = {
        "color": "rgb",
        "resize": "crop",
        "resize_to": transforms.resize_size[0],
        "interpolation": checked_interpolation(transforms.interpolation.value),
        "mean": list(transforms.mean),
        "std": list(transforms.std),
    }
    return Preparation(keys, lambda image: transforms(image).numpy())


def of_timm(network):
    """From timm's own configuration of the network."""
    import timm.data

    return of_timm_data(timm.data.resolve_model_data_config(network))


def of_timm_data(data):
    """From what timm's resolve_data_config() returns."""
    import timm.data

    fraction, mode = data["crop_pct"], data["crop_mode"]
    keys = {"color": "rgb", "resize": "crop", "crop_fraction": fraction}
    if mode == "squash":
        keys = {"color": "rgb", "resize": "stretch"} | ({"crop_fraction": fraction} if fraction != 1 else {})
    elif mode == "border" and fraction == 1:
        keys = {"color": "rgb", "resize": "pad", "pad_color": [round(255 * value) for value in data["mean"]]}
    elif mode != "center":
        raise Inexpressible(f"its images are prepared by timm's crop mode '{mode}' with {fraction} of each side.")
    keys["interpolation"] = checked_interpolation(data["interpolation"])
    keys["mean"], keys["std"] = list(data["mean"]), list(data["std"])
    transform = timm.data.create_transform(**data, is_training=False)
    return Preparation(keys, lambda image: transform(image).numpy())


def resized(image, size, resize, fraction, interpolation):
    """A PIL image of size (height, width), by Pillow."""
    from PIL import Image

    method = Image.Resampling[interpolation.upper()]
    if resize == "stretch":
        return image.resize((size[1], size[0]), method)
    height, width = (int(side / fraction) for side in size)  # to be covered
    if width * image.height >= height * image.width:
        height = width * image.height // image.width
    else:
        width = height * image.width // image.height
    image = image.resize((width, height), method)
    top, left = round((height - size[0]) / 2), round((width - size[1]) / 2)
    return image.crop((left, top, left + size[1], top + size[0]))


def of_preset(preset, size, channels):
    """From one of the daemon's presets. size: (height, width) of the network's input."""
    resize, fraction, interpolation, scale, mean, std = PRESETS[preset]
    if channels != 3 and not np.isscalar(mean):
        raise Inexpressible(f"the preset {preset} is for 3 channels, the network reads {channels}: take none.")
    if channels not in MODES:
        raise Inexpressible(f"a picture has 1, 3 or 4 channels, the network reads {channels}.")

    def transform(image):
        image = resized(image.convert(MODES[channels]), size, resize, fraction, interpolation)
        pixels = np.asarray(image, np.float32).reshape(*size, channels)
        values = (pixels * np.float32(scale) - np.float32(mean)) / np.float32(std)
        return values.transpose(2, 0, 1).astype(np.float32)

    return Preparation({"preset": preset}, transform)
