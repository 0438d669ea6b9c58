"""Protobuf's wire format, as far as the programs here write it: a message is a run of fields, a field is a varint
(number << 3 | wire type) and its value."""


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def text(field, value):
    """Bytes, text or a message that was written already."""
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value
