#!/usr/bin/env python3
"""Checks the walls between the rooms of the code, and counts what crosses them.

    tests/style/rooms.py            fails with each include that breaks a wall, and with each circle of parts
    tests/style/rooms.py --graph    prints the includes between rooms as "FROM -> TO: COUNT", and the sums

The walls stand in rooms.txt beside this program, with the rooms that may include a library's header. A part is a header with the sources named after it: x.h, x_internal.h,
x.c, and x_y.c where there is no header x_y.h. Parts that include each other in a circle cannot be understood one by one, so
that fails, too. Exit status 0 only if nothing is wrong.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = pathlib.Path(__file__).with_name("rooms.txt")
FLOORS = ("client", "engine", "kernels", "server")
INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
LIBRARY = re.compile(r'\s*#\s*include\s+<([^>]+)>')


def read_rooms():
    """Returns room -> the set of rooms that it may include, in the order of the file; header of a library -> the rooms that
    may include it; and what is wrong with the file."""
    rooms, libraries, wrong = {}, {}, []
    for number, line in enumerate(ROOMS.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        room, _, names = line.partition(":")
        if room.startswith("<"):
            libraries[room.strip("<>")] = set(names.split())
            wrong += [f"{ROOMS.name}:{number}: there is no room {name}" for name in names.split() if name not in rooms]
            continue
        allowed = {room}
        for name in names.split():
            found = [known for known in rooms if known == name or name.endswith("/*") and known.startswith(name[:-1])]
            if not found:
                wrong.append(f"{ROOMS.name}:{number}: {room} may not include {name}, which has no line above")
            allowed.update(found)
        if not any(path.parent == ROOT / room or str(path.relative_to(ROOT)) == room or path.with_suffix("") == ROOT / room
                   for path in sources()):
            wrong.append(f"{ROOMS.name}:{number}: there is no {room}")
        rooms[room] = allowed
    return rooms, libraries, wrong


def sources():
    for floor in FLOORS:
        for path in sorted((ROOT / floor).rglob("*")):
            if path.suffix in (".c", ".h", ".cu", ".cuh"):
                yield path


def room_of(rooms, name):
    """The room of a file, named from the root: the file itself, its name without the ending, or its folder."""
    for room in (name, name.rsplit(".", 1)[0], name.rsplit("/", 1)[0]):
        if room in rooms:
            return room
    return None


def part_of(name, files):
    """x_internal.h and x_y.c belong to x.h, unless x_y.h is there."""
    folder, _, base = name.rpartition("/")
    stem = base.rsplit(".", 1)[0]
    while "_" in stem and (stem.endswith("_internal")
                           or not any(f"{folder}/{stem}{ending}" in files for ending in (".h", ".cuh"))):
        shorter = stem.rsplit("_", 1)[0]
        stem = shorter
    for ending in (".h", ".cuh", "_internal.h"):
        if f"{folder}/{stem}{ending}" in files:
            return f"{folder}/{stem}"
    return name.rsplit(".", 1)[0]


def circles(edges):
    """Strongly connected components of more than one part (Tarjan, 1972)."""
    index, low, stack, found, on_stack = {}, {}, [], [], set()

    def visit(part):
        index[part] = low[part] = len(index)
        stack.append(part)
        on_stack.add(part)
        for other in sorted(edges.get(part, ())):
            if other not in index:
                visit(other)
                low[part] = min(low[part], low[other])
            elif other in on_stack:
                low[part] = min(low[part], index[other])
        if low[part] == index[part]:
            component = []
            while True:
                component.append(stack.pop())
                on_stack.discard(component[-1])
                if component[-1] == part:
                    break
            if len(component) > 1:
                found.append(sorted(component))

    for part in sorted(edges):
        if part not in index:
            visit(part)
    return sorted(found)


def main():
    sys.setrecursionlimit(10000)
    rooms, libraries, wrong = read_rooms()
    files = {str(path.relative_to(ROOT)) for path in sources()}
    order = {room: place for place, room in enumerate(rooms)}
    between = collections.Counter()
    parts = collections.defaultdict(dict)
    backward = 0
    for path in sources():
        name = str(path.relative_to(ROOT))
        room = room_of(rooms, name)
        if room is None:
            wrong.append(f"{name}: no room of {ROOMS.name} holds it")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            library = LIBRARY.match(line)
            if library and room not in libraries.get(library.group(1), {room}):
                wrong.append(f"{name}:{number}: {room} may not include <{library.group(1)}>")
            match = INCLUDE.match(line)
            if not match:
                continue
            other = match.group(1)
            if other not in files:
                if "/" in other and other.split("/")[0] in FLOORS:
                    wrong.append(f"{name}:{number}: there is no {other}")
                continue
            other_room = room_of(rooms, other)
            if other_room is None:
                continue
            if other_room != room:
                between[room, other_room] += 1
                backward += order[other_room] > order[room]
            if other_room not in rooms[room]:
                wrong.append(f"{name}:{number}: {room} may not include {other_room} ({other})")
            one, two = part_of(name, files), part_of(other, files)
            if one != two:
                parts[one].setdefault(two, f"{name}:{number}")
    found = circles({part: set(others) for part, others in parts.items()})
    for circle in found:
        lines = [f"{parts[one][two]}: includes {two}" for one in circle for two in circle if two in parts[one]]
        wrong.append(f"a circle of {len(circle)} parts:\n    " + "\n    ".join(lines))
    if "--graph" in sys.argv[1:]:
        for (room, other), count in sorted(between.items()):
            print(f"{room} -> {other}: {count}{' (backward)' if order[other] > order[room] else ''}")
        print(f"{len(rooms)} rooms, {len(files)} files, {sum(between.values())} includes between rooms, {backward} backward, "
              f"{len(found)} circles of {sum(map(len, found))} parts")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main())
