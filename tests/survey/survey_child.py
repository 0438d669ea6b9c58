"""What the survey does with one network before a convoyd sees it: make it, export it, and ask ONNX Runtime.

Everything here runs in a process of its own, which the survey forks with all libraries loaded and ends when it takes
too long: an exporter that hangs or takes all memory costs one network."""

import contextlib
import os
import signal
import warnings

import numpy
import onnx
import onnxruntime
import survey_sources

ROWS = 2  # images that are compared, where the file's batch is open


def session_of(path, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def difference(values, wanted):
    """max|y - y'| / max|y'| of the worst output; infinite where one is not finite or of another shape."""
    worst = 0.0
    for one, other in zip(values, wanted, strict=True):
        if one.shape != other.shape or not numpy.isfinite(one).all():
            return float("inf")
        worst = max(worst, float(numpy.abs(one - other).max() / max(numpy.abs(other).max(), 1e-30)))
    return worst


def spread(values):
    """By how much the first output of two images differs; near 0 the network says the same of all images."""
    first = values[0]
    return float(numpy.abs(first[0] - first[1]).max() / max(numpy.abs(first).max(), 1e-30)) if len(first) > 1 else None


def answers(path, images, single, together):
    """(outputs by ONNX Runtime, how far its optimisation levels differ). It is asked for one image at a time unless together. single:
    so in any case, and it counts as differing from itself, too, as its answers to the same images do a millionth brighter: where
    activations are quantised as they come, rounding decides."""
    levels = [onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL]
    batches = [images] if together and not single else [images[i : i + 1] for i in range(len(images))]
    results = []
    for level in levels:
        session = session_of(path, level)
        for factor in (1, 1 + 1e-6) if single else (1,):
            scaled = [batch * numpy.float32(factor) for batch in batches]
            parts = [session.run(None, {session.get_inputs()[0].name: batch}) for batch in scaled]
            results.append([numpy.concatenate(values) for values in zip(*parts, strict=True)])
        names = [output.name for output in session.get_outputs()]
    return dict(zip(names, results[0], strict=True)), max(difference(other, results[0]) for other in results[1:])


def images_of(about, rows, seed):
    """What the network reads: of a standard normal distribution, or pixels of 0 to 255."""
    chance, shape = numpy.random.default_rng(seed), (rows, *about["image"])
    return (chance.uniform(0, 255, shape) if about.get("pixels") else chance.standard_normal(shape)).astype(numpy.float32)


def operators(path):
    found = set()

    def walk(graph):
        for node in graph.node:
            found.add(node.op_type)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    walk(attribute.g)

    model = onnx.load(path, load_external_data=False)
    walk(model.graph)
    for function in model.functions:
        found.update(node.op_type for node in function.node)
    return sorted(found), max(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def prepare(name, exporter, seed, folder):
    """Writes folder/1/model.onnx and folder/answers.npz (image, and each output). Returns what is to be remembered."""
    path = folder / "1" / "model.onnx"
    path.parent.mkdir(parents=True)
    source, _, rest = name.partition(":")
    about = survey_sources.module_of(name).write(source, rest, exporter, seed, path)
    about["operators"], about["opset"] = operators(path)
    about["input_name"] = onnx.load(path, load_external_data=False).graph.input[0].name
    reference, single = about.pop("reference", path), about.get("single", False)
    images = images_of(about, ROWS, seed)
    try:
        outputs, about["peer_error"] = answers(reference, images, single, about["open_batch"])
    except Exception:  # a batch that only seems to be open
        if not about["open_batch"]:
            raise
        outputs, about["peer_error"] = answers(reference, images, single, False)
    about["rows"] = len(images)
    about["spread"] = spread(list(outputs.values()))
    if not all(numpy.isfinite(values).all() for values in outputs.values()):
        raise ValueError("ONNX Runtime's answer is not finite, so there is nothing to compare with")
    numpy.savez(folder / "answers.npz", image=images, **{f"out:{key}": values for key, values in outputs.items()})
    return about


def run(pipe, name, exporter, seed, folder, log):
    """The child's whole life: sends {"about": ...} or {"failed": sentence} through pipe."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with open(log, "w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(None):
            warnings.simplefilter("ignore")
            pipe.send({"about": prepare(name, exporter, seed, folder)})
    except BaseException as error:  # exporters raise everything
        text = " ".join(str(error).split())
        pipe.send({"failed": f"{type(error).__name__}: {text}"[:300]})
    pipe.close()
