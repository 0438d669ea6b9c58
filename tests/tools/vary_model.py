#!/usr/bin/env python3
"""vary_model.py MODEL.onnx OUT.onnx K: the same network with its classes turned by K, so that what was class c is
(c + K) mod classes: rows of the last dense layer change places. A network whose version can be told from its answer.

Reads and writes protobuf by hand (ONNX: ModelProto.graph = 7, GraphProto.initializer = 5, TensorProto.dims = 1,
.raw_data = 9), since a test has no onnx package."""
import sys


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data, at, end):
    """(number, wire type, value or (start, end)) of each field."""
    while at < end:
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = varint(data, at)
            yield number, kind, value
        elif kind == 2:
            length, at = varint(data, at)
            yield number, kind, (at, at + length)
            at += length
        else:
            at += {1: 8, 5: 4}[kind]


def tensors(data):
    for number, kind, graph in fields(data, 0, len(data)):
        if number != 7 or kind != 2:
            continue
        for number, kind, tensor in fields(data, *graph):
            if number != 5 or kind != 2:
                continue
            dims, raw = [], None
            for number, kind, value in fields(data, *tensor):
                if number == 1 and kind == 0:
                    dims.append(value)
                elif number == 1:
                    at = value[0]
                    while at < value[1]:
                        size, at = varint(data, at)
                        dims.append(size)
                elif number == 9:
                    raw = value
            yield dims, raw


def main():
    data = bytearray(open(sys.argv[1], "rb").read())
    found = [(dims, raw) for dims, raw in tensors(data) if raw is not None]
    classes = [dims[0] for dims, _ in found if len(dims) == 2][-1]
    turn = int(sys.argv[3]) % classes
    turned = 0
    for dims, (start, end) in found:
        if dims[0] != classes or len(dims) > 2:
            continue
        row = (end - start) // classes
        rows = data[start:end]
        data[start:end] = rows[(classes - turn) * row:] + rows[:(classes - turn) * row]
        turned += 1
    if turned != 2:
        sys.exit(f"{sys.argv[1]}: {turned} tensors have {classes} rows, expected the last layer's weights and bias")
    open(sys.argv[2], "wb").write(data)


main()
