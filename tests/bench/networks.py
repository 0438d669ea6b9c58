#!/usr/bin/env python3
"""Our kernels and the peers' on the same ONNX files and the same random input, in one run: times, with errors beside
them. networks.sh calls it and finds the programs and a Python for it; README.md tells more. Kernels only: the input is
on the device, one CUDA graph is replayed, each figure is the median of the rounds' medians of --runs replays."""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import networks_layers
import networks_report
from networks_options import NETWORKS, read_options
from networks_program import Failed, Program

try:
    import numpy
except ImportError:
    sys.exit(f"networks.py: NumPy is missing in {sys.executable} (Debian package python3-numpy)")

HERE = pathlib.Path(__file__).resolve().parent
BATCHES = {"cifar10-resnet": [1, 8, 64, 256, 1024]}
OTHER_BATCHES = [1, 8, 64, 10000]
LARGE_BATCHES = [1, 256]  # of networks that do not ship
ANSWER_S = 300  # for what is no compilation

# What runs a network: name, arithmetic, and for PyTorch whether channels come last and whether it is compiled.
OURS = "ours"
PEERS = [
    ("PyTorch", "fp32", False, False),
    ("PyTorch", "tf32", False, False),
    ("PyTorch, channels last", "tf32", True, False),
    ("PyTorch, channels last", "fp16", True, False),
    ("torch.compile", "tf32", True, True),
    ("torch.compile", "fp16", True, True),
]
MORE_PEERS = [
    ("PyTorch, channels last", "fp32", True, False),
    ("PyTorch", "fp16", False, False),
    ("torch.compile", "fp32", True, True),
]


def say(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    """What one run of this program has: options, processes, results."""

    def __init__(self, options, work):
        self.options, self.work = options, work
        self.begun = time.monotonic()
        self.programs = {}
        self.results = {
            "seed": options.seed,
            "rounds": options.rounds,
            "runs": options.runs,
            "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "arguments": sys.argv[1:],
            "ours": {},
            "torch": None,
            "networks": [],
            "layers": [],
            "notes": [],
        }
        self.cache = pathlib.Path(options.cache or work / "cache")
        self.cache.mkdir(parents=True, exist_ok=True)

    def log_of(self, key):
        """The file of a program's messages; a network may be named by the path of its file."""
        return self.work / f"{key.replace('/', '_')}.log"

    def left(self):
        return self.options.budget - (time.monotonic() - self.begun)

    def limit(self, most=ANSWER_S):
        """Seconds for something that may take so long, and no longer than the budget."""
        return max(min(most, self.left()), 1)

    def note(self, text):
        say(text)
        if text not in self.results["notes"]:
            self.results["notes"].append(text)

    def save(self):
        """Whatever there is so far; a run that is cut off leaves its figures."""
        if self.options.json is None:
            return
        new = self.options.json.with_name(self.options.json.name + ".new")
        new.write_text(json.dumps(self.results, indent=1) + "\n", encoding="utf-8")
        new.rename(self.options.json)

    def end(self):
        for program in self.programs.values():
            program.end()

    def torch(self, key):
        """A process that has PyTorch. Each arithmetic that is compiled has one, because a compilation may have to be killed."""
        if key not in self.programs or not self.programs[key].alive():
            if key in self.programs:
                self.programs[key].end()
            environment = {"TORCHINDUCTOR_CACHE_DIR": str(self.cache / "inductor")}
            command = [sys.executable, str(HERE / "networks_torch.py")]
            self.programs[key] = Program(key, command, self.log_of(key), environment)
        return self.programs[key]

    def ask_torch(self, question, seconds=ANSWER_S, key="PyTorch"):
        return self.torch(key).ask(json.dumps(question), seconds)

    def release(self):
        """What the peers prepared."""
        for key, program in self.programs.items():
            if not key.startswith(f"{OURS} ") and program.alive():
                try:
                    program.ask(json.dumps({"do": "release"}), ANSWER_S)
                except Failed as reason:
                    self.note(str(reason))

    def find_torch(self):
        if not self.options.peers:
            self.note("the peers are left out, as asked (--no-peers)")
            return
        try:
            self.results["torch"] = self.ask_torch({"do": "hello"})
        except Failed as reason:
            self.note(f"the peers are left out: PyTorch or onnx cannot be used with {sys.executable}: {reason}")
            return
        if self.options.compile != [] and not self.options.autotune:
            self.note("torch.compile is in its default mode (--no-autotune)")
        if not self.results["torch"]["gpu"]:
            self.note("PyTorch finds no GPU here: the peers' times are those of the CPU and say nothing")


def read_outputs(path, kind, rows):
    values = numpy.fromfile(path, kind).astype(numpy.float64)
    if values.size == 0 or values.size % rows != 0:
        raise Failed(f"{values.size} outputs for {rows} rows")
    return values.reshape(rows, -1)


# Arms: what is measured in turns. Each has program, precision, prepare() and measure(batch, file).


class Ours:
    program = OURS

    def __init__(self, bench, network, precision):
        self.bench, self.network, self.precision = bench, network, precision
        self.key = f"{OURS} {network.name} {precision}"

    def start(self):
        """Loads the network and tunes it, for all batches; again where the last one died of a batch."""
        last = self.bench.programs.get(self.key)
        if last is not None and last.alive():
            return
        if last is not None:
            last.end()
        options = self.bench.options
        tune_s = min(options.tune_seconds, max(self.bench.left() / 2, 0))  # the rest is for measuring
        command = [options.program, options.backend, self.network.file, self.precision, str(max(self.network.batches))]
        command += [str(self.network.input), str(self.bench.cache), str(tune_s)]
        program = Program("bench_network_time", command, self.bench.log_of(self.key))
        self.bench.programs[self.key] = program
        about = program.answer(tune_s + ANSWER_S)
        self.bench.results["ours"][f"{self.network.name} {self.precision}"] = about
        if options.tune_seconds > 0 and not about["tuned"]:
            self.bench.note(f"{self.key}: not all is tuned after {about['tune_s']:.0f} s (--tune-seconds, --budget)")

    def prepare(self, batch):
        del batch
        begun = time.monotonic()
        self.start()
        return time.monotonic() - begun

    def measure(self, batch, out):
        return self.bench.programs[self.key].ask(f"{batch} {self.bench.options.runs} {out}", ANSWER_S)


class Peer:
    def __init__(self, bench, network, peer):
        self.bench, self.network = bench, network
        self.program, self.precision, self.channels_last, self.compiles = peer
        self.key = f"{self.program} {self.precision}"
        self.process = self.key if self.compiles else "PyTorch"

    def prepare(self, batch):
        question = {
            "do": "prepare",
            "key": self.key,
            **self.network.for_torch(),
            "input": str(self.network.input),
            "batch": batch,
            "precision": self.precision,
            "channels_last": self.channels_last,
            "compile": self.compiles,
            "autotune": self.bench.options.autotune,
        }
        limit = self.bench.limit(self.bench.options.compile_seconds if self.compiles else ANSWER_S)
        return self.bench.ask_torch(question, limit, self.process)["prepare_s"]

    def measure(self, batch, out):
        del batch
        question = {"do": "measure", "key": self.key, "runs": self.bench.options.runs, "out": str(out)}
        return self.bench.ask_torch(question, ANSWER_S, self.process)


def is_module(name):
    return ":" in name and not name.endswith(".onnx")


def file_of(bench, name):
    """The ONNX file of a network, made where it is one of torchvision's or timm's."""
    if name.endswith(".onnx"):
        return name
    if not is_module(name):
        return f"models/{name}/1/model.onnx"
    file = bench.cache / f"{name.replace(':', '-')}-{bench.options.seed}.onnx"
    if not file.exists():
        new = file.with_suffix(".new")
        command = [sys.executable, str(HERE / "networks_export.py"), name, str(new), str(bench.options.seed)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{name}: {(done.stderr.strip().splitlines() or ['networks_export.py said nothing'])[-1]}")
        new.rename(file)
    return str(file)


class Network:
    """A network with its input file and the outputs that would be right."""

    def __init__(self, bench, name):
        self.bench, self.name = bench, name
        self.file = file_of(bench, name)
        self.module = name if is_module(name) else None
        self.batches = bench.options.batches or BATCHES.get(name, OTHER_BATCHES if name in NETWORKS else LARGE_BATCHES)
        self.input, self.wanted, self.reference = bench.work / "input", None, None
        self.shape = self.read_shape()

    def for_torch(self):
        """What PyTorch runs: the module itself, where there is one, else what the file says."""
        return {"module": self.module, "seed": self.bench.options.seed} if self.module else {"model": self.file}

    def read_shape(self):
        done = subprocess.run(
            [self.bench.options.worker, "--check", self.file, "--backend", "null"], stdout=subprocess.PIPE, check=False
        )
        try:
            about = json.loads(done.stdout)
        except ValueError:
            about = {"ok": False, "reason": "convoy-worker --check did not answer"}
        if not about["ok"]:
            raise Failed(f"{self.name}: {about['reason']}")
        return about["channels"], about["height"], about["width"]

    def write_input(self):
        """Like normalised images: mean 0, deviation 1."""
        chance = numpy.random.default_rng(self.bench.options.seed)
        with open(self.input, "wb") as file:
            for first in range(0, max(self.batches), 256):
                rows = min(256, max(self.batches) - first)
                chance.standard_normal((rows, *self.shape), numpy.float32).tofile(file)

    def find_wanted(self):
        """By PyTorch in float64, else by convoyd's own CPU backend, which is another program than what is measured."""
        rows, out = max(self.batches), self.bench.work / "reference"
        try:
            if self.bench.results["torch"]:
                question = {"do": "reference", **self.for_torch(), "input": str(self.input), "rows": rows, "out": str(out)}
                self.bench.ask_torch(question, self.bench.limit())
                self.wanted = read_outputs(out, numpy.float64, rows)
                self.reference = "PyTorch in float64"
                return
        except Failed as reason:
            self.bench.note(f"{self.name}: no reference from PyTorch: {reason}")
        options = self.bench.options
        command = [options.cpu_program, "cpu", self.file, "fp32", str(rows), str(self.input), "", "0"]
        program = Program("the CPU backend", command, self.bench.work / "cpu.log")
        try:
            program.answer(self.bench.limit())
            program.ask(f"{rows} 1 {out}", self.bench.limit())
            self.wanted = read_outputs(out, numpy.float32, rows)
            self.reference = "convoyd's CPU backend in fp32"
        except Failed as reason:
            self.bench.note(f"{self.name}: nothing to compare with, so no errors: {reason}")
        finally:
            program.end()

    def compare(self, batch, out):
        """(max|y - y64| / max|y64|, rows whose first class is another)"""
        if self.wanted is None:
            return None, None
        wanted = self.wanted[:batch]
        got = read_outputs(out, numpy.float32, batch)
        if got.shape != wanted.shape:
            raise Failed(f"{got.size} outputs, not {wanted.size}")
        worst = numpy.abs(got - wanted).max() / numpy.abs(wanted).max()
        differ = int((got.argmax(axis=1) != wanted.argmax(axis=1)).sum())
        return (float(worst) if numpy.isfinite(got).all() else float("inf")), differ


def compiles_here(options, name, batch):
    return options.compile is None or any(chosen in (name, f"{name}:{batch}") for chosen in options.compile)


def arms_of(bench, network, batch):
    """Ours and peers alternately: of each arithmetic first ours."""
    options, arms = bench.options, []
    peers = PEERS + MORE_PEERS if options.every_peer else PEERS
    for precision in options.precisions:
        arms.append(Ours(bench, network, precision))
        for peer in peers:
            if bench.results["torch"] and peer[1] == precision and (not peer[3] or compiles_here(options, network.name, batch)):
                arms.append(Peer(bench, network, peer))
    return arms


def prepare(bench, arm, record, batch):
    where = f"{record['network']}, batch {batch}, {record['program']} {record['precision']}"
    try:
        if bench.left() <= 0:
            raise Failed(f"not begun within the budget of {bench.options.budget:g} s")
        record["prepare_s"] = arm.prepare(batch)
        say(f"{where}: prepared in {record['prepare_s']:.1f} s")
    except Failed as reason:
        record["left_out"] = str(reason)
        say(f"{where}: left out: {reason}")


def measure(bench, network, arm, record, turn):
    batch, out = record["batch"], bench.work / "outputs"
    where = f"{record['network']}, batch {batch}, {record['program']} {record['precision']}, round {turn}"
    try:
        if turn > 1 and bench.left() <= 0:
            raise Failed(f"rounds after {turn - 1} are over the budget of {bench.options.budget:g} s")
        times = arm.measure(batch, out)
        error, differ = network.compare(batch, out)
        record["rounds"].append(times)
        # The worst of the rounds: a kernel that is wrong now and then is wrong.
        record["error"] = max(error, record["error"] or 0) if error is not None else None
        record["other_first_class"] = max(differ, record["other_first_class"] or 0) if differ is not None else None
        say(f"{where}: {times['median_us']:.1f} us, error {networks_report.error(error)}")
    except Failed as reason:
        if record["rounds"]:
            bench.note(f"{where}: {reason}")
        else:
            record["left_out"] = str(reason)
            say(f"{where}: left out: {reason}")


def run_batch(bench, network, batch, results):
    arms = []
    for arm in arms_of(bench, network, batch):
        record = {
            "network": network.name,
            "batch": batch,
            "program": arm.program,
            "precision": arm.precision,
            "rounds": [],
            "error": None,
            "other_first_class": None,
            "left_out": None,
            "prepare_s": None,
        }
        results.append(record)
        prepare(bench, arm, record, batch)
        arms.append((arm, record))
    for turn in range(1, bench.options.rounds + 1):
        for arm, record in arms:
            if record["left_out"] is None and len(record["rounds"]) == turn - 1:
                measure(bench, network, arm, record, turn)
    bench.release()


def run_network(bench, name):
    network = Network(bench, name)
    about = {"network": name, "shape": network.shape, "module": network.module, "reference": None, "measurements": []}
    bench.results["networks"].append(about)
    if bench.left() <= 0:
        bench.note(f"{name}: not begun within the budget of {bench.options.budget:g} s")
        return
    network.write_input()
    network.find_wanted()
    about["reference"] = network.reference
    for batch in network.batches:
        run_batch(bench, network, batch, about["measurements"])
        bench.save()
    for key in [key for key in bench.programs if key.startswith(f"{OURS} ")]:
        bench.programs.pop(key).end()


def ours_failed(results):
    """1 if something of ours is missing or wrong."""
    if not all(about["measurements"] for about in results["networks"]):
        return 1
    records = [record for about in results["networks"] for record in about["measurements"]] + results["layers"]
    ours = [record for record in records if record["program"] == OURS]
    return int(any(record["left_out"] or networks_report.wrong(record) for record in ours))


def interrupted(number, _):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt(signal.Signals(number).name)


def main():
    options = read_options(__doc__)
    status = 0
    signal.signal(signal.SIGTERM, interrupted)
    with tempfile.TemporaryDirectory(prefix="networks-") as work:
        bench = Bench(options, pathlib.Path(work))
        say(f"seed {options.seed}, {options.rounds} rounds of {options.runs} runs, budget {options.budget:g} s")
        try:
            for name in options.networks:  # before anything takes long
                Network(bench, name)
            bench.save()
            bench.find_torch()
            if options.layers:
                networks_layers.run(bench, options.layers)
                bench.save()
            for name in options.networks:
                run_network(bench, name)
        except (Failed, OSError) as reason:
            sys.exit(f"networks.py: {reason}")
        except KeyboardInterrupt as signalled:
            bench.note(f"cut off ({str(signalled) or 'SIGINT'}) after {time.monotonic() - bench.begun:.0f} s")
            status = 130
        except Exception as error:  # a mistake of this program; what was measured is not lost for it
            traceback.print_exc()
            bench.note(f"ended by {type(error).__name__}: {error}")
            status = 1
        finally:
            bench.end()
        bench.results["seconds"] = time.monotonic() - bench.begun
        bench.save()
        networks_report.write(bench.results, sys.stdout)
        status = status or ours_failed(bench.results)
    sys.exit(status)


if __name__ == "__main__":
    main()
