"""What networks.py prints: a table for each network, one for the layers."""

import statistics

EXACTNESS = {"fp32": 0, "tf32": 1, "fp16": 2}
WRONG = 0.05  # rounding to fp16 costs a hundredth of that


def error(value):
    return "-" if value is None else f"{value:.1e}"


def wrong(record):
    return record["error"] is not None and not record["error"] < WRONG


def ms(us):
    return f"{us / 1e3:.4g}" if us < 1e6 else f"{us / 1e3:.0f}"


def medians(record):
    return [one["median_us"] for one in record["rounds"]]


def median(record):
    return statistics.median(medians(record))


def times(record):
    """Median of the rounds, and the least and the greatest of them."""
    values = medians(record)
    return f"{ms(statistics.median(values))} | {ms(min(values))} to {ms(max(values))}"


def best_peer(ours, records):
    """The fastest of those that compute as exactly as ours at least."""
    peers = [
        record
        for record in records
        if record["program"] != "ours"
        and record["rounds"]
        and not wrong(record)
        and EXACTNESS[record["precision"]] <= EXACTNESS[ours["precision"]]
    ]
    return min(peers, key=median, default=None)


def ratio(ours, peer):
    """The peer's time over ours, round by round: the median, the least and the greatest."""
    if peer is None or wrong(ours) or not all(medians(ours)):
        return ""
    values = [theirs / own for theirs, own in zip(medians(peer), medians(ours))]
    middle = statistics.median(values)
    return f"**{middle:.2f}** ({min(values):.2f} to {max(values):.2f}), {peer['program']} {peer['precision']}"


def row(record, records, cells):
    if not record["rounds"]:
        return None
    peer = best_peer(record, records) if record["program"] == "ours" else None
    cells = [
        *cells,
        record["program"],
        record["precision"],
        times(record),
        error(record["error"]) + (" WRONG" if wrong(record) else ""),
    ]
    return cells, ratio(record, peer)


def line(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def left_out(records, what):
    """A line for each reason, with all that it kept out."""
    reasons = {}
    for record in records:
        if record["left_out"]:
            reasons.setdefault(record["left_out"], []).append(what(record))
    return [f"- left out: {'; '.join(names)}: {reason}" for reason, names in reasons.items()]


def network_table(about, out):
    channels, height, width = about["shape"]
    print(f"\n### {about['network']}, {channels} x {height} x {width}\n", file=out)
    print(
        "| batch | program | arithmetic | ms | least to greatest | error | other first class | best peer's time / ours |",
        file=out,
    )
    print("| ---: | --- | --- | ---: | --- | ---: | ---: | --- |", file=out)
    for batch in dict.fromkeys(record["batch"] for record in about["measurements"]):
        records = [record for record in about["measurements"] if record["batch"] == batch]
        for record in records:
            made = row(record, records, [f"{batch:,}"])
            if made:
                differ = record["other_first_class"]
                print(line([*made[0], "-" if differ is None else differ, made[1]]), file=out)
    print(f"\nErrors beside {about['reference'] or 'nothing: there was no reference'}.", file=out)
    if about["module"]:
        print(f"PyTorch runs the module {about['module']} itself, from whose weights the file was exported.", file=out)
    for text in left_out(about["measurements"], lambda r: f"batch {r['batch']:,}, {r['program']} {r['precision']}"):
        print(text, file=out)


def layer_table(layers, out):
    print(f"\n### The convolutions of ece408 by themselves, {layers[0]['sizes'][0]:,} images\n", file=out)
    print("| layer | program | arithmetic | ms | least to greatest | error | kernel | best peer's time / ours |", file=out)
    print("| --- | --- | --- | ---: | --- | ---: | --- | --- |", file=out)
    for key in dict.fromkeys(record["layer"] for record in layers):
        records = [record for record in layers if record["layer"] == key]
        for record in records:
            made = row(record, records, [key])
            if made:
                print(line([*made[0], record["kernel"] or "", made[1]]), file=out)
    print(
        "\nOurs are compared with float64 of operands that were rounded as the kernel rounds them, and are timed launch by launch;\n"
        "PyTorch's are compared with float64 of the operands as they were given, and are replays of a CUDA graph.",
        file=out,
    )
    for text in left_out(layers, lambda r: f"{r['layer']}, {r['program']} {r['precision']}"):
        print(text, file=out)


def write(results, out):
    torch = results["torch"]
    device = next((about["description"] for about in results["ours"].values()), "no device")
    peers = f"PyTorch {torch['torch']}, cuDNN {torch['cudnn']}, on {torch['device']}" if torch else "none"
    print(f"Ours on {device}; peers: {peers}.", file=out)
    print(
        f"Seed {results['seed']}, {results['rounds']} rounds in turns, each the median of {results['runs']} runs; "
        f"{results['begun']}, {results['seconds']:.0f} s.",
        file=out,
    )
    if results["layers"]:
        layer_table(results["layers"], out)
    for about in results["networks"]:
        if about["measurements"]:
            network_table(about, out)
    if results["notes"]:
        print("\nNotes:", file=out)
        for text in results["notes"]:
            print(f"- {text}", file=out)
