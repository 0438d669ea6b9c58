"""The command line of networks.py."""

import argparse
import pathlib
import time

PRECISIONS = ("fp32", "tf32", "fp16")
NETWORKS = ("fashion-lenet", "fashion-ece408", "cifar10-convnet", "cifar10-resnet")
SOURCES = ("torchvision", "timm")
MOST_ROWS = 65535  # CONVOY_ROWS_MAX


def whole_numbers(text):
    values = [int(part) if part.isdecimal() else 0 for part in text.split(",")]
    if not all(1 <= value <= MOST_ROWS for value in values):
        raise argparse.ArgumentTypeError(f"'{text}': expected numbers from 1 to {MOST_ROWS} with commas between")
    return values


def some_of(known):
    def read(text):
        chosen = [] if text == "none" else text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"'{name}': there are {', '.join(known)}")
        return chosen

    return read


def networks(served):
    """Names of models/, files, and torchvision:NAME or timm:NAME, which networks_export.py makes."""

    def read(text):
        chosen = [] if text == "none" else text.split(",")
        for name in chosen:
            if name not in served and not name.endswith(".onnx") and name.split(":")[0] not in SOURCES:
                raise argparse.ArgumentTypeError(
                    f"'{name}': there are {', '.join(served)}, FILE.onnx, torchvision:NAME and timm:NAME"
                )
        return chosen

    return read


def positive(kind):
    def read(text):
        value = kind(text)
        if not value > 0:
            raise ValueError
        return value

    read.__name__ = f"positive {kind.__name__}"
    return read


def read_options(about):
    parser = argparse.ArgumentParser(prog="networks.sh", usage="networks.sh PACK_OR_BUILD [OPTION...]", description=about)
    add = parser.add_argument
    for name in ("program", "cpu-program", "worker", "kernels", "caller"):
        add(f"--{name}", required=True, help=argparse.SUPPRESS)
    add("--backend", default="cuda", help=argparse.SUPPRESS)
    served = sorted(path.name for path in pathlib.Path("models").iterdir() if (path / "1").is_dir())
    add(
        "--networks",
        type=networks(served),
        default=list(NETWORKS),
        metavar="A,B",
        help="of models/, FILE.onnx, torchvision:NAME, timm:NAME, or none (default: the four that ship)",
    )
    add(
        "--batches",
        type=whole_numbers,
        metavar="N,M",
        help="for all networks (default 1,8,64,10000; cifar10-resnet: 1,8,64,256,1024)",
    )
    add(
        "--precisions",
        type=some_of(PRECISIONS),
        default=list(PRECISIONS),
        metavar="P,Q",
        help="of fp32, tf32, fp16 (default: all)",
    )
    add("--rounds", type=positive(int), default=3, help="all are measured in turns, so often (default 3)")
    add("--runs", type=positive(int), default=30, help="replays of a round, of which the median is taken (default 30)")
    add("--seed", type=int, help="of the random input (default: from the clock; it is printed)")
    add("--compile", metavar="LIST", help="torch.compile for these networks alone, or NETWORK:BATCH (default: all)")
    add("--no-compile", action="store_true", help="without torch.compile, which takes minutes")
    add("--compile-seconds", type=positive(float), default=400, help="for one compilation, then it is given up (default 400)")
    add("--no-autotune", dest="autotune", action="store_false", help="torch.compile does not try which kernels are fastest")
    add("--every-peer", action="store_true", help="PyTorch in both layouts in every arithmetic, and torch.compile in fp32")
    add("--no-peers", dest="peers", action="store_false", help="ours alone")
    add(
        "--layers",
        nargs="?",
        type=positive(int),
        const=10000,
        metavar="N",
        help="ece408's convolutions by themselves, too, for N images (default 10000)",
    )
    add("--layer-kernels", default="all", metavar="NAME", help="of ours in --layers, as convoy-kernels --kernel")
    add("--tune-seconds", type=float, default=300, help="for a network in one precision at most; 0: do not tune (default 300)")
    add(
        "--budget",
        type=positive(float),
        default=1800,
        metavar="SECONDS",
        help="what is not begun or still compiles by then is left out (default 1800)",
    )
    add("--cache", metavar="DIR", help="kernel times and compiled kernels, kept for the next run")
    add("--json", metavar="FILE", help="everything that was measured")
    options = parser.parse_args()
    options.compile = [] if options.no_compile else options.compile and options.compile.split(",")
    for chosen in options.compile or []:
        if chosen not in options.networks and chosen.rpartition(":")[0] not in options.networks:
            parser.error(f"--compile {chosen}: there are {', '.join(options.networks)}, each also as NETWORK:BATCH")
    options.networks = [
        str(pathlib.Path(options.caller, name)) if name.endswith(".onnx") else name for name in options.networks
    ]
    options.json = options.json and pathlib.Path(options.caller, options.json)
    options.cache = options.cache and pathlib.Path(options.caller, options.cache)
    options.seed = time.time_ns() % 2**32 if options.seed is None else options.seed
    return options
