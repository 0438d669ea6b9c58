#!/usr/bin/env python3
"""Makes a table of what sampler.c wrote: sampler.py PROGRAM FILE

For each function of the program the share of the processor time that it and what it called outside of the program took,
and in which functions; then the same of the program's first thread alone. Functions have names where the file has symbols (nm)."""
import bisect
import collections
import subprocess
import sys


def symbols(path):
    """The functions in a file, (address, end, name), sorted; of a library without symbols those that it exports."""
    found = set()
    for option in ([], ["-D"]):
        listed = subprocess.run(["nm", "-S", *option, "--defined-only", path], capture_output=True, text=True, check=False)
        for line in listed.stdout.splitlines():
            fields = line.split()
            if len(fields) == 4 and fields[2] in "tTwWi":
                address = int(fields[0], 16)
                found.add((address, address + int(fields[1], 16), fields[3].split("@")[0]))
    return sorted(found)


def name_in(path, offset, known={}):
    if path not in known:
        known[path] = symbols(path)
    functions = known[path]
    at = bisect.bisect_right(functions, (offset, float("inf"))) - 1
    return functions[at][2] if at >= 0 and offset < functions[at][1] else "?"


def table(program, lines, most):
    total, owners = 0, collections.Counter()
    leaves = collections.defaultdict(collections.Counter)
    for module, offset, caller, count in lines:
        count, caller = int(count), int(caller, 16)
        owner = name_in(program, caller) if caller else "(outside)"
        inside = module.rsplit("/", 1)[-1] == program.rsplit("/", 1)[-1]
        leaf = "itself" if inside else module.rsplit("/", 1)[-1].split(".so")[0] + ":" + name_in(module, int(offset, 16))
        total += count
        owners[owner] += count
        leaves[owner][leaf] += count
    print(f"{total} samples")
    for owner, count in owners.most_common(most):
        where = ", ".join(f"{leaf} {100 * n / total:.1f}" for leaf, n in leaves[owner].most_common(5))
        print(f"{100 * count / total:5.1f} %  {owner:40} {where}")


def main():
    program, samples = sys.argv[1:]
    every, first = [], []
    with open(samples, encoding="utf-8") as lines:
        for line in lines:
            module, offset, caller, on_first, count = line.rsplit(maxsplit=4)
            every.append((module, offset, caller, count))
            if on_first == "1":
                first.append(every[-1])
    table(program, every, 30)
    print("\nthe first thread alone:")
    table(program, first, 12)


if __name__ == "__main__":
    main()
