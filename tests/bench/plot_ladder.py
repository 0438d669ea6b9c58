#!/usr/bin/env python3
"""Draws the ladder of kernels: what `convoy-kernels --table` prints, as a picture for docs/history/kernels.md.

    plot_ladder.py TABLE OUT.svg

For both layers at the table's largest batch: the best kernel of each family that took both, in the table's order, cuDNN
if the table has it, and the floor. OUT may also end in .png. Needs matplotlib (PyPI); the same table and the same
matplotlib give the same bytes."""

import re
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

LAYERS = ("layer 1", "layer 2")
# Operations an image, 2 k c r s x output pixels, of the layers in kernels/check/check_conv_table.c; fp32 operations a second of an H200.
OPERATIONS = {"layer 1": 2 * 12 * 1 * 7 * 7 * 66 * 66, "layer 2": 2 * 24 * 12 * 7 * 7 * 27 * 27}
PEAK = 51e12
PEER = "cudnn"
INK, FAINT, OURS, THEIRS = "#222222", "#bbbbbb", "#1f6f9f", "#b5532a"


def read(path):
    """(batch, {layer: {kernel: milliseconds}}), at the largest batch that has both layers."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("milliseconds")), None)
    if start is None:
        sys.exit(f"plot_ladder.py: {path} is not what convoy-kernels --table prints")
    columns = re.findall(r"(\S+(?: \d)?) x(\d+)", lines[start])  # "layer 1 x100", "1+tanh+pool x100"
    batches = [{int(batch) for name, batch in columns if name == layer} for layer in LAYERS]
    if not batches[0] & batches[1]:
        sys.exit(f"plot_ladder.py: {path} has no batch with both layers")
    batch = max(batches[0] & batches[1])
    times = {layer: {} for layer in LAYERS}
    for line in lines[start + 1 :]:
        kernel, *cells = line.split()
        if len(cells) != len(columns) + 1:
            break
        for (name, images), cell in zip(columns, cells):
            if cell.endswith("!"):
                sys.exit(f"plot_ladder.py: {kernel} is wrong in {path}: nothing to draw")
            if name in times and int(images) == batch and cell != "-":
                times[name][kernel] = float(cell)
    return batch, times


def best_of_families(times):
    """{family: (milliseconds, which tile or template)} in the table's order."""
    best = {}
    for kernel, ms in times.items():
        family, _, tile = kernel.partition(":")
        if family not in best or ms < best[family][0]:
            best[family] = ms, tile.rpartition(":")[2]
    return best


def draw(axes, layer, best, families, floor):
    rows = range(len(families))
    for row, family in zip(rows, families):
        ms, tile = best[family]
        axes.plot([floor, ms], [row, row], color=FAINT, linewidth=1, zorder=1)
        axes.plot(ms, row, "o", color=OURS, markersize=5, zorder=3)
        text = f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"
        # White behind: cuDNN's line may pass here.
        text += f"  ({tile})" if tile else ""
        axes.annotate(text, (ms, row), (6, 0), textcoords="offset points", va="center", color=INK, zorder=4,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6})
    axes.axvline(floor, color=INK, linewidth=1)
    marks = [(floor, f"floor {floor:.2f}", INK, "right", 2)]
    if PEER in best:
        axes.axvline(best[PEER][0], color=THEIRS, linewidth=1, linestyle=(0, (4, 3)), zorder=2)
        marks.append((best[PEER][0], f"cuDNN {best[PEER][0]:.2f}", THEIRS, "left", -2))
    for x, text, color, align, shift in marks:
        axes.annotate(text, (x, 1), (shift, 3), xycoords=("data", "axes fraction"), textcoords="offset points",
                      ha=align, va="bottom", color=color)
    axes.set_title(layer, loc="right", fontsize=9, color=INK, pad=4)
    axes.set_xscale("log")
    axes.set_ylim(len(families) - 0.5, -0.5)
    axes.set_yticks(rows, families)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.tick_params(length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    batch, times = read(sys.argv[1])
    best = {layer: best_of_families(times[layer]) for layer in LAYERS}
    families = [family for family in best[LAYERS[0]] if family != PEER and family in best[LAYERS[1]]]
    if not families:
        sys.exit(f"plot_ladder.py: {sys.argv[1]} has no kernel that took both layers")
    plt.rcParams.update({"svg.hashsalt": "ladder", "font.family": "DejaVu Sans", "font.size": 8, "text.color": INK,
                         "xtick.color": INK, "ytick.color": INK, "axes.labelcolor": INK})
    size = (8, 0.26 * len(families) + 0.9)
    figure, both = plt.subplots(1, 2, figsize=size, sharex=True, sharey=True, layout="constrained")
    floors = {layer: OPERATIONS[layer] * batch / PEAK * 1e3 for layer in LAYERS}
    for axes, layer in zip(both, LAYERS):
        draw(axes, layer, best[layer], families, floors[layer])
    longest = max(best[layer][family][0] for layer in LAYERS for family in families)
    both[0].set_xlim(min(floors.values()) * 0.4, longest * 4)  # room for the labels
    figure.supxlabel(f"milliseconds for {batch:,} images, logarithmic", fontsize=8)
    metadata = {"Date": None} if sys.argv[2].endswith(".svg") else None
    figure.savefig(sys.argv[2], dpi=150, metadata=metadata)


if __name__ == "__main__":
    main()
