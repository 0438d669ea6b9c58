#!/usr/bin/env python3
"""Sends pictures to a convoyd whose networks answer with their input, one for each of some configurations that torchvision
and timm give to networks and of the image processors of transformers, and compares with what these make of the same pictures
through Pillow. preprocessing.sh calls it and makes the Python that it needs; README.md tells more."""

import argparse
import collections
import dataclasses
import fnmatch
import json
import pathlib
import shutil
import signal
import sys

import numpy
import onnx
import survey_pictures
import survey_server

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models"))
import preprocessing  # noqa: E402

LEVELS = 1.001  # one level of 255, and what rounding to float32 costs
SHARE = 0.999

# SOURCE:NAME of weights or of a timm configuration, what is asked of timm beside it, the keys in config.json where they are a
# preset's by name.
CONFIGURATIONS = [
    ("torchvision:ResNet50_Weights.IMAGENET1K_V1", {}, None),
    ("torchvision:ResNet50_Weights.IMAGENET1K_V1", {}, {"preset": "imagenet"}),
    ("torchvision:ResNet50_Weights.IMAGENET1K_V2", {}, None),
    ("torchvision:Inception_V3_Weights.IMAGENET1K_V1", {}, None),
    ("torchvision:ConvNeXt_Tiny_Weights.IMAGENET1K_V1", {}, None),
    ("torchvision:EfficientNet_B0_Weights.IMAGENET1K_V1", {}, None),
    ("torchvision:EfficientNet_B3_Weights.IMAGENET1K_V1", {}, None),
    ("torchvision:EfficientNet_V2_S_Weights.IMAGENET1K_V1", {}, None),
    ("torchvision:Swin_V2_T_Weights.IMAGENET1K_V1", {}, None),
    ("torchvision:ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1", {}, None),
    ("timm:resnet50.a1_in1k", {}, None),
    ("timm:resnet50.a1_in1k", {"interpolation": "lanczos"}, None),
    ("timm:resnet50.a1_in1k", {"interpolation": "nearest", "crop_pct": 0.77}, None),
    ("timm:mobilenetv3_large_100.miil_in21k_ft_in1k", {}, None),
    ("timm:vit_base_patch16_224.augreg_in21k_ft_in1k", {}, None),
    ("timm:inception_v3.tf_in1k", {"crop_pct": 0.875, "interpolation": "bicubic"}, {"preset": "imagenet-inception"}),
    ("timm:vit_base_patch16_clip_224.openai", {"crop_pct": 1.0}, {"preset": "clip"}),
    ("timm:vit_base_patch16_sapiens2.fb", {}, None),
    ("timm:swin_base_patch4_window12_384.ms_in22k_ft_in1k", {}, None),
    ("timm:convnext_base.clip_laion2b_augreg_ft_in12k_in1k_384", {}, None),
    ("timm:dm_nfnet_f0.dm_in1k", {}, None),
    ("timm:vit_base_patch16_clip_384.openai_ft_in12k_in1k", {}, None),
]
# Classes of transformers, and what their preprocessor_config.json says, as folders of the Hugging Face hub have it.
PROCESSORS = [
    ("ViT", {}),
    ("ViT", {"size": 384, "resample": 3}),
    ("DeiT", {}),
    ("Beit", {"size": 256, "do_center_crop": True, "crop_size": 224}),
    ("ConvNext", {"size": {"shortest_edge": 224}}),
    ("ConvNext", {"size": {"shortest_edge": 384}, "resample": 2}),
    ("CLIP", {}),
    ("Bit", {"size": {"shortest_edge": 256}, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}),
    ("Levit", {}),
    ("MobileNetV1", {}),
    ("MobileNetV2", {"crop_size": {"height": 192, "width": 192}}),
    ("MobileViT", {"size": {"shortest_edge": 288}, "crop_size": {"height": 256, "width": 256}}),
    ("PoolFormer", {}),
    ("Pvt", {"resample": 2}),
    ("Segformer", {"do_normalize": False}),
    ("Siglip", {"size": {"height": 256, "width": 256}}),
    ("EfficientNet", {"size": {"height": 260, "width": 260}, "resample": 0}),
    ("EfficientNet", {"include_top": False, "image_std": [0.4785, 0.4733, 0.4743]}),
]


@dataclasses.dataclass
class Configuration:
    name: str
    model: str  # its folder
    keys: dict  # "input" of config.json; None: folder is the hub's
    transform: object  # a PIL image to float32 C x H x W, normalised
    mean: numpy.ndarray
    std: numpy.ndarray
    size: tuple  # height, width
    preprocessor: dict = None  # of the hub's folder


def options_of():
    parser = argparse.ArgumentParser(prog="preprocessing.sh", description=__doc__)
    add = parser.add_argument
    add("patterns", nargs="*", help="of the configurations' names, e.g. 'timm:*' (default: all)")
    add("--build", default="build", help="the folder above bin/convoyd (default build)")
    add("--work", default="build/preprocessing", help="models and log of the daemon (default build/preprocessing)")
    add("--pictures", action="store_true", help="a line for each picture that falls short, too")
    return parser.parse_args()


def configuration_of(number, source_name, asked, keys):
    source, name = source_name.split(":")
    if source == "torchvision":
        import torchvision

        weights = torchvision.models.get_weight(name)
        made = preprocessing.of_torchvision(weights)
        size = (weights.transforms().crop_size[0],) * 2
    else:
        import timm.data

        data = timm.data.resolve_data_config(asked, pretrained_cfg=timm.get_pretrained_cfg(name).to_dict())
        made = preprocessing.of_timm_data(data)
        size = tuple(data["input_size"][1:])
    shape = (3, 1, 1)
    mean, std = (numpy.array(made.keys[key], numpy.float64).reshape(shape) for key in ("mean", "std"))
    words = [source_name, *(f"{key}={value}" for key, value in asked.items())]
    if keys is not None:
        words.append(f"as preset {keys['preset']}")
    return Configuration(" ".join(words), f"configuration-{number}", keys or made.keys, made.transform, mean, std, size)


def processor_of(number, name, given):
    import transformers

    processor = getattr(transformers, name + "ImageProcessorPil")(**given)
    file = json.loads(processor.to_json_string())
    file["image_processor_type"] = name + "ImageProcessor"

    def transform(image):
        return processor(image.convert("RGB"), return_tensors="np")["pixel_values"][0]

    # What black and white become tells the mean and the deviation.
    blank = numpy.zeros((400, 400, 3), numpy.uint8)
    low, high = (numpy.asarray(processor(blank + value, return_tensors="np")["pixel_values"][0], numpy.float64) for value in (0, 255))
    std = 1 / (high - low)[:, :1, :1]
    words = [f"transformers:{name}", *(f"{key}={value}" for key, value in given.items())]
    return Configuration(" ".join(words), f"processor-{number}", None, transform, -low[:, :1, :1] * std, std, low.shape[1:], file)


def write_model(models, configuration):
    """A network that returns its input, with the configuration's keys or the hub's files."""
    height, width = configuration.size
    folder = models / configuration.model
    hub = configuration.keys is None
    place = folder / ("onnx" if hub else "1")
    place.mkdir(parents=True)
    if hub:
        (folder / "config.json").write_text(json.dumps({"model_type": "surveyed"}), encoding="utf-8")
        (folder / "preprocessor_config.json").write_text(json.dumps(configuration.preprocessor), encoding="utf-8")
    else:
        (folder / "config.json").write_text(json.dumps({"input": configuration.keys}), encoding="utf-8")
    shape = ["N", "C", "H", "W"] if hub else ["N", 3, height, width]
    described = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Flatten", ["image"], ["pixels"])],
        "input",
        [described("image", onnx.TensorProto.FLOAT, shape)],
        [described("pixels", onnx.TensorProto.FLOAT, ["N", 3 * height * width])],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, place / "model.onnx")


def levels(values, configuration):
    """0 to 255 again."""
    return (values.astype(numpy.float64) * configuration.std + configuration.mean) * 255


def compared(daemon, configuration, pictures, show):
    """Asks for each picture. Prints a line. Returns whether enough values are within a level."""
    values = near = equal = 0
    worst, worst_name, short = 0.0, "", []
    for name, file, image in pictures:
        got = daemon.infer_file(configuration.model, "image", file)["pixels"].reshape(3, *configuration.size)
        wanted = configuration.transform(image)
        difference = numpy.abs(levels(got, configuration) - levels(wanted, configuration))
        within = int((difference <= LEVELS).sum())
        values, near = values + difference.size, near + within
        equal += int((difference <= LEVELS - 1).sum())
        if difference.max() > worst:
            worst, worst_name = float(difference.max()), name
        if within < SHARE * difference.size:
            short.append(f"    {within / difference.size:.3%} of {name}")
    height, width = configuration.size
    line = f"{near / values:9.4%} within 1 level, {equal / values:9.4%} equal, at most {worst:5.1f}"
    line += f" ({worst_name})" if worst > LEVELS else ""
    print(f"{line}  {configuration.name}, {width} x {height}", flush=True)
    if show and short:
        print("\n".join(short), flush=True)
    return near >= SHARE * values


def inexpressible():
    """What config.json has no keys for, among all weights of torchvision and all configurations of timm."""
    import timm.data
    import torchvision

    counts, reasons = collections.Counter(), collections.defaultdict(list)
    for model in torchvision.models.list_models(module=torchvision.models):
        for weights in torchvision.models.get_model_weights(model):
            counts["torchvision"] += 1
            try:
                preprocessing.of_torchvision(weights)
            except preprocessing.Inexpressible as reason:
                reasons["torchvision", str(reason)].append(str(weights))
    for name in timm.list_pretrained():
        counts["timm"] += 1
        data = timm.data.resolve_data_config(pretrained_cfg=timm.get_pretrained_cfg(name).to_dict())
        try:
            preprocessing.of_timm_data(data)
        except preprocessing.Inexpressible as reason:
            reasons["timm", str(reason)].append(name)
    for (source, reason), names in sorted(reasons.items()):
        print(f"{source} has {', '.join(names)}: {reason}")
    missing = collections.Counter(source for (source, _), names in reasons.items() for _ in names)
    for source, count in counts.items():
        print(f"{source}: {count} configurations, {missing[source]} of them have no keys in config.json")


def main():
    options = options_of()
    chosen = [configuration_of(number, *each) for number, each in enumerate(CONFIGURATIONS)]
    chosen += [processor_of(number, *each) for number, each in enumerate(PROCESSORS)]
    if options.patterns:
        chosen = [each for each in chosen if any(fnmatch.fnmatchcase(each.name, word) for word in options.patterns)]
    pictures = []
    for index in range(len(survey_pictures.PICTURES)):
        name, file = survey_pictures.encoded(index)
        pictures.append((name, file, survey_pictures.opened(file)))
    work = pathlib.Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    daemon = survey_server.Daemon(options.build, "cpu", work, 60, model_control="none", worker={"slots": 2})
    shutil.rmtree(daemon.models)
    for each in chosen:
        write_model(daemon.models, each)
    try:
        daemon.start_ready()
        passed = [compared(daemon, each, pictures, options.pictures) for each in chosen]
    finally:
        daemon.stop()
    inexpressible()
    print(f"{sum(passed)} of {len(chosen)} configurations: {SHARE:.1%} of the values of {len(pictures)} pictures or more are within "
          "a level of Pillow's")
    return int(not all(passed) or not passed)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # what it started ends with it
    sys.exit(main())
