"""WebP, GIF and BMP files that have as many pixels for each byte as their formats and convoyd allow. For bombs.py; Python's standard library
only."""

import struct

PIXELS_A_BYTE = 2048  # of a WebP without loss, as server/image/webp.c has it
FREE_PIXELS = 1 << 19


class Bits:
    """A WebP's bits without loss, the lowest first."""

    def __init__(self):
        self.parts = []

    def put(self, value, count):
        self.parts.append(f"{value:0{count}b}"[::-1] if count else "")

    def symbol(self, value):
        """A code with one symbol, which then takes no bits."""
        self.put(1, 1)
        self.put(0, 1)
        self.put(value > 1, 1)
        self.put(value, 8 if value > 1 else 1)

    def symbols(self, *values):
        for value in values:
            self.symbol(value)

    def bytes(self):
        text = "".join(self.parts)
        return int(text[::-1], 2).to_bytes((len(text) + 7) // 8, "little")


def riff(name, data, size=0):
    """size: so many bytes at least, filled up with what nothing reads."""
    data += bytes(max(0, size - len(data) - 20))
    chunk = name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)
    return b"RIFF" + struct.pack("<I", len(chunk) + 4) + b"WEBP" + chunk


def lossless_head(side, alpha=0):
    bits = Bits()
    for value, count in ((0x2F, 8), (side - 1, 14), (side - 1, 14), (alpha, 1), (0, 3)):
        bits.put(value, count)
    return bits


def webp_lossless(side):
    """One colour: no pixel takes a bit, and each goes through all four transforms. As few bytes as are taken."""
    bits = lossless_head(side, alpha=1)
    for transform in range(4):
        bits.put(1, 1)
        bits.put((0, 1, 2, 3)[transform], 2)
        if transform < 2:
            bits.put(0, 3)  # blocks of 4 x 4
        elif transform == 3:
            bits.put(255, 8)  # colours
        if transform != 2:
            bits.put(0, 1)
            bits.symbols(12, 9, 11, 255, 0)
    bits.put(0, 3)  # no other transform, no cache, one set of codes
    bits.symbols(3, 1, 200, 255, 0)
    least = max(0, side * side - FREE_PIXELS) // PIXELS_A_BYTE + 1
    return riff(b"VP8L", bits.bytes(), least)


def webp_tables(side):
    """A set of codes of its own for every 4 x 4 pixels: libwebp makes 5 tables of each."""
    bits = lossless_head(side)
    bits.put(0, 1)
    bits.put(1, 1)
    bits.put(11, 4)  # a cache of 2,048 colours, which makes the tables larger
    bits.put(1, 1)
    bits.put(0, 3)
    bits.put(0, 1)
    for count in (280, 256):  # green and red: 256 codes of 8 bits
        bits.put(0, 1)
        bits.put(8, 4)
        for length in (0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1):
            bits.put(length, 3)
        bits.put(0, 1)
        bits.parts.append("1" * 256 + "0" * (count - 256))
    bits.symbols(0, 255, 0)
    sets = min(((side + 3) // 4) ** 2, 1 << 16)
    bits.parts.extend(f"{index & 255:08b}{index >> 8:08b}" for index in range(sets))
    bits.parts.append(f"{0:016b}" * (((side + 3) // 4) ** 2 - sets))
    one = Bits()
    one.symbols(3, 1, 200, 255, 0)
    bits.parts.append("".join(one.parts) * sets)
    return riff(b"VP8L", bits.bytes())


def webp_lossy(side):
    """Bytes of 0 are read as the likelier of two for ever: flat blocks of 4 x 4 without a coefficient."""
    blocks = ((side + 15) // 16) ** 2
    first = blocks * 17 // 32 + 1024
    tag = first << 5 | 1 << 4
    head = struct.pack("<I", tag)[:3] + b"\x9d\x01\x2a" + struct.pack("<HH", side, side)
    return riff(b"VP8 ", head + bytes(first) + bytes(blocks * 6 // 8 + 1024))


def codes(pixels, block=255, clears=0):
    """GIF's codes of pixels of colour 0, each the longest there is; in blocks of that many bytes."""
    parts, width = [], 3
    strings = {1: 0}
    free, before, left = 6, 0, pixels

    def put(code):
        parts.append(f"{code:0{width}b}"[::-1])

    for _ in range(clears + 1):
        put(4)
    while left > 0:
        if before and free < 4096:
            strings[before + 1] = free
            free += 1
        before = min(max(strings), left)
        put(strings[before])
        left -= before
        if free == 1 << width and width < 12:
            width += 1
    put(5)
    text = "".join(parts)
    data = int(text[::-1], 2).to_bytes((len(text) + 7) // 8, "little")
    return b"\2" + b"".join(bytes([len(data[i:i + block])]) + data[i:i + block] for i in range(0, len(data), block)) + b"\0"


def gif(width, height, data, screen=None, interlaced=False, before=b""):
    colours = bytes(range(1, 13))
    head = b"GIF89a" + struct.pack("<HHBBB", *(screen or (width, height)), 0x81, 0, 0) + colours
    return head + before + b"," + struct.pack("<HHHHB", 0, 0, width, height, 0x40 * interlaced) + data + b";"


def gif_of_one_colour(side, interlaced=False):
    return gif(side, side, codes(side * side), interlaced=interlaced)


def gif_of_clear_codes(count):
    return gif(8, 8, codes(64, clears=count))


def gif_of_comments(count):
    return gif(8, 8, codes(64), before=b"!\xfe" + b"\1a" * count + b"\0")


def gif_screen(side):
    """A frame of one pixel, on as large a screen as the bytes allow."""
    return gif(1, 1, codes(1), screen=(side, side)) + bytes(side * side // 2730 + 1)


def bmp(width, height, bits, compression, data):
    palette = b"\1\2\3\0\4\5\6\0"
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(data), 0, 0, 2, 0)
    offset = 14 + len(head) + len(palette)
    return b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) + head + palette + data


def bmp_runs(bits):
    """Runs of 255: 28 make a row of 7,140."""
    return bmp(7140, 7000, bits, 1 if bits == 8 else 2, (b"\xff\x11" * 28 + b"\0\0") * 7000)


def bmp_that_ends_at_once():
    """All rows are left out; as few bytes as are taken."""
    return bmp(7000, 7000, 8, 1, b"\0\1" + bytes(7000 * 7000 // 128))


def bmp_of_skips(count):
    """Codes that go nowhere."""
    return bmp(8, 8, 8, 1, b"\0\2\0\0" * count + (b"\x08\1\0\0" * 8))
