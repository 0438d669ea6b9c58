"""The two convolutions of ece408 by themselves, ours (convoy-kernels) beside cuDNN, as networks.py --layers asks."""

import pathlib
import re
import subprocess
import sys

from networks_program import Failed

LAYERS = (("layer 1", (1, 72, 72, 12, 7, 7)), ("layer 2", (12, 33, 33, 24, 7, 7)))  # c, h, w, k, r, s
LINE = re.compile(r"^(\S+)\s+(\S+)\s+([0-9.]+)\s+\S+\s+\S+(  WRONG)?$", re.M)
CUDNN = "cuDNN by itself"
CUDNN_TORCH = {False: "cuDNN through PyTorch", True: "cuDNN through PyTorch, channels last"}


def library():
    """The cuDNN of the PyTorch that is measured, where that is a wheel's."""
    for folder in sys.path:
        file = pathlib.Path(folder, "nvidia", "cudnn", "lib", "libcudnn.so.9")
        if file.exists():
            return str(file)
    return "libcudnn.so.9"


def kernels(bench, sizes, precision, name, cudnn):
    """{kernel: (us, error)} of those of ours that are right; cuDNN is "cudnn" among them where it was asked for and is there."""
    command = [bench.options.kernels, "--conv", ",".join(map(str, sizes)), "--products", precision]
    command += ["--runs", str(bench.options.runs), "--seed", str(bench.options.seed), "--kernel", name, "--cudnn", cudnn]
    limit = max(bench.left(), 1)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"convoy-kernels took {limit:.0f} s, all that was left of the budget, and was ended") from None
    except OSError as reason:
        raise Failed(f"convoy-kernels cannot be run: {reason}") from None
    found = {}
    for kernel, error, ms, wrong in LINE.findall(done.stdout):
        if wrong:
            bench.note(f"convoy-kernels: {kernel} is wrong at {sizes}: error {error}")
        else:
            found[kernel] = float(ms) * 1e3, float(error)
    if not any(kernel != "cudnn" for kernel in found):
        last = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        raise Failed(f"convoy-kernels measured nothing (status {done.returncode}): {last}")
    return found


def record_of(layer, sizes, program, precision):
    return {
        "layer": layer,
        "sizes": sizes,
        "program": program,
        "precision": precision,
        "kernel": None,
        "rounds": [],
        "error": None,
        "left_out": None,
    }


def add_round(record, us, error=None):
    record["rounds"].append({"median_us": us})
    record["error"] = max(error, record["error"] or 0) if error is not None else record["error"]


def prepare_peer(bench, record, channels_last):
    question = {
        "do": "prepare",
        "key": f"{record['program']} {record['layer']} {record['precision']}",
        "conv": record["sizes"],
        "seed": bench.options.seed % 2**31,
        "precision": record["precision"],
        "channels_last": channels_last,
    }
    record["error"] = bench.ask_torch(question, max(bench.left(), 1))["error"]
    return question["key"]


def measure_ours(bench, ours, cudnn, turn):
    """In the first round all kernels, then the fastest of those."""
    sizes, precision = ours["sizes"], ours["precision"]
    name = bench.options.layer_kernels if turn == 0 else ours["kernel"]
    try:
        found = kernels(bench, sizes, precision, name, library() if cudnn else "none")
    except Failed as reason:
        if not cudnn or bench.left() <= 0:
            raise
        bench.note(f"without {CUDNN}: {reason}")
        found = kernels(bench, sizes, precision, name, "none")
    beside = found.pop("cudnn", None)
    ours["kernel"] = min(found, key=found.get)
    add_round(ours, *found[ours["kernel"]])
    if beside is not None:
        add_round(cudnn, *beside)


def run_layer(bench, layer, sizes, precision):
    ours = record_of(layer, sizes, "ours", precision)
    cudnn = record_of(layer, sizes, CUDNN, precision) if precision == "fp32" and bench.options.peers else None
    peers = {}
    bench.results["layers"].append(ours)
    for channels_last, program in CUDNN_TORCH.items() if bench.results["torch"] else ():
        record = record_of(layer, sizes, program, precision)
        bench.results["layers"].append(record)
        try:
            peers[prepare_peer(bench, record, channels_last)] = record
        except Failed as reason:
            record["left_out"] = str(reason)
    for turn in range(bench.options.rounds):
        try:
            measure_ours(bench, ours, cudnn, turn)
        except Failed as reason:
            ours["left_out"] = ours["left_out"] or (str(reason) if turn == 0 else None)
        for key, record in peers.items():
            try:
                times = bench.ask_torch({"do": "measure", "key": key, "runs": bench.options.runs})
                add_round(record, times["median_us"])
            except Failed as reason:
                record["left_out"] = record["left_out"] or (str(reason) if turn == 0 else None)
    if cudnn is not None and cudnn["rounds"]:
        bench.results["layers"].append(cudnn)
    bench.release()


def run(bench, images):
    for precision in bench.options.precisions:
        for layer, sizes in LAYERS:
            print(f"ece408, {layer}, {images} images, {precision}", file=sys.stderr, flush=True)
            if bench.left() <= 0:
                bench.note(f"ece408, {layer}, {precision}: not begun within the budget of {bench.options.budget:g} s")
                continue
            try:
                run_layer(bench, layer, (images, *sizes), precision)
            except Failed as reason:
                bench.note(f"ece408, {layer}, {precision}: {reason}")
