"""Where the networks come from. For each source a module writes them as ONNX files:

    names()                                     what may be named, in the order in which it is tried; not of COUNTED
    write(source, name, exporter, seed, path)   writes path; returns what is to be remembered, a dictionary with
        "parameters"    of the network
        "image"         the shape of one image in the file's order of axes
        "open_batch"    whether the file leaves the batch open
    and if they are not the usual: "pixels" (images are 0 to 255, not of a standard normal distribution), "input" (keys of the
    model's config.json), "single" (the file computes each image rightly only alone).

A module imports its libraries at its head; it is imported only where its source is asked for."""

import collections
import importlib

Source = collections.namedtuple("Source", "module exporters by_default")
PYTORCH = ("torchscript", "dynamo")
ONE = ("dynamo-one",)  # the new exporter with one image and nothing open, as it writes a network that it is only given
FORMS = ("fp16", "quint8", "qint8", "q4")  # of what torchscript wrote: survey_forms.py
SOURCES = {
    "torchvision": Source("survey_pytorch", PYTORCH + ONE, PYTORCH),
    "timm": Source("survey_pytorch", PYTORCH + ONE, PYTORCH),
    "transformers": Source("survey_transformers", PYTORCH + ONE + FORMS, PYTORCH),
    "keras": Source("survey_keras", ("tf2onnx", "tf2onnx-nchw", "keras"), ("tf2onnx", "keras")),
}
EXPORTERS = tuple(dict.fromkeys(exporter for source in SOURCES.values() for exporter in source.exporters))
COUNTED = ("torchvision", "timm")  # their parameters are counted before, because a family's smallest network is wanted


def source_of(name):
    return name.partition(":")[0]


def module_of(name):
    """name: SOURCE, or SOURCE:NAME"""
    return importlib.import_module(SOURCES[source_of(name)].module)


def exporters_of(name, asked):
    """asked: what --exporters names, or none."""
    source = SOURCES[source_of(name)]
    return [each for each in source.exporters if each in (asked or source.by_default)]


def asked_for(patterns):
    """The sources that patterns mean; of none, or of one that names no source, those of COUNTED."""
    words = {source_of(pattern) for pattern in patterns}
    if not words <= set(SOURCES) or not words:
        words |= set(COUNTED)
    return [source for source in SOURCES if source in words]
