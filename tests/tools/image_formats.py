"""The WebP, BMP and GIF images of image_reference.py, which calls write(). Pillow encodes what it can; what it cannot (containers of
animations, most kinds of BMP, frames that are smaller than their screen) is put together here."""
import io
import os
import random
import struct

from PIL import Image

SMALL = [(47, 31, 3, "stretch"), (47, 31, 1, "stretch"), (32, 32, 3, "stretch"), (28, 28, 1, "crop"), (31, 64, 3, "stretch")]
WAYS = {2: Image.FLIP_LEFT_RIGHT, 3: Image.ROTATE_180, 4: Image.FLIP_TOP_BOTTOM, 5: Image.TRANSPOSE,
        6: Image.ROTATE_270, 7: Image.TRANSVERSE, 8: Image.ROTATE_90}


def save(reference, name, data):
    with open(os.path.join(reference.FOLDER, name), "wb") as out:
        out.write(data)


def encoded(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def flat(reference, data):
    """What Pillow makes of it, its alpha laid on black."""
    with Image.open(io.BytesIO(data)) as image:
        rgba = image.convert("RGBA")
    pixels = list(rgba.getdata())
    width, height = rgba.size
    return reference.on_black([pixels[y * width:(y + 1) * width] for y in range(height)])


def turned(image, orientation):
    return image.transpose(WAYS[orientation]) if orientation in WAYS else image


# --- WebP ---------------------------------------------------------------------------------------------------------

def riff_chunk(name, data):
    return name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


def riff(*chunks):
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def three(value):
    return struct.pack("<I", value)[:3]


def vp8x(flags, width, height):
    return riff_chunk(b"VP8X", bytes([flags, 0, 0, 0]) + three(width - 1) + three(height - 1))


def pixels_of(data):
    """The chunks that hold the pixels of a WebP that Pillow wrote."""
    at, found = 12, b""
    while at < len(data):
        name, size = data[at:at + 4], struct.unpack("<I", data[at + 4:at + 8])[0]
        if name in (b"ALPH", b"VP8 ", b"VP8L"):
            found += data[at:at + 8 + size + size % 2]
        at += 8 + size + size % 2
    return found


def frame(data, left, top, width, height):
    head = three(left // 2) + three(top // 2) + three(width - 1) + three(height - 1) + three(100) + b"\0"
    return riff_chunk(b"ANMF", head + pixels_of(data))


def webps(reference):
    def add(name, data, targets=None):
        save(reference, name, data)
        reference.expect(name, flat(reference, data), targets)

    rgb, rgba = reference.picture("RGB", 47, 31, 101), reference.picture("RGBA", 47, 31, 102)
    for label, options in (("lossy", {"quality": 85}), ("lossless", {"lossless": True})):
        add("%s.webp" % label, encoded(rgb, "WEBP", **options))
        add("%s-alpha.webp" % label, encoded(rgba, "WEBP", **options))
        add("%s-grey.webp" % label, encoded(reference.picture("L", 47, 31, 103).convert("RGB"), "WEBP", **options), SMALL)
        for width, height in ((1, 1), (1, 9), (9, 1), (15, 17), (33, 31)):
            add("size-%dx%d-%s.webp" % (width, height, label),
                encoded(reference.picture("RGB", width, height, 104), "WEBP", **options),
                [(32, 32, 3, "stretch"), (16, 9, 3, "crop"), (1, 1, 1, "stretch")])
        photo = reference.picture("RGB", 500, 375, 105)
        add("photo-%s.webp" % label, encoded(photo, "WEBP", **options), [(224, 224, 3, "crop"), (32, 32, 1, "stretch")])
    for orientation in range(1, 9):
        size = (31, 47) if orientation >= 5 else (47, 31)
        for mode in ("RGB", "RGBA"):
            data = encoded(reference.picture(mode, *size, 106), "WEBP", lossless=True)
            note = reference.exif(orientation, "<>"[orientation % 2])
            if orientation in (3, 6):
                note = b"Exif\0\0" + note
            name = "exif%d-%s.webp" % (orientation, mode.lower())
            flags = 0x08 | (0x10 if mode == "RGBA" else 0)
            save(reference, name, riff(vp8x(flags, *size), pixels_of(data), riff_chunk(b"EXIF", note)))
            reference.expect(name, turned(flat(reference, data), orientation), SMALL)
    # Animations: the first frame on its canvas; a later one must not matter.
    other = encoded(Image.new("RGB", (47, 31), (255, 0, 0)), "WEBP", lossless=True)
    anim = riff_chunk(b"ANIM", b"\xff\x80\x40\xff\0\0")
    for label, image, options in (("lossy", rgb, {"quality": 85}), ("lossless", rgba, {"lossless": True}),
                                  ("alpha", rgba, {"quality": 85})):
        data = encoded(image, "WEBP", **options)
        whole = riff(vp8x(0x12, 47, 31), anim, frame(data, 0, 0, 47, 31), frame(other, 0, 0, 47, 31))
        save(reference, "animated-%s.webp" % label, whole)
        reference.expect("animated-%s.webp" % label, flat(reference, data))
        part = riff(vp8x(0x12, 60, 50), anim, riff_chunk(b"XTRA", b"abc"), frame(data, 4, 10, 47, 31), frame(other, 0, 0, 47, 31))
        save(reference, "animated-part-%s.webp" % label, part)
        canvas = Image.new("RGB", (60, 50))
        canvas.paste(flat(reference, data), (4, 10))
        reference.expect("animated-part-%s.webp" % label, canvas, [(60, 50, 3, "stretch"), (60, 50, 1, "stretch"), *SMALL])


# --- BMP ----------------------------------------------------------------------------------------------------------

def mask_of(value):
    shift = (value & -value).bit_length() - 1 if value else 0
    return shift, bin(value).count("1")


def packed(rows, bits):
    """Rows of palette indices or whole pixels, each filled up to four bytes."""
    out = []
    for row in rows:
        line = bytearray()
        if bits < 8:
            line = bytearray((len(row) * bits + 7) // 8)
            for x, value in enumerate(row):
                line[x * bits // 8] |= value << (8 - bits - x * bits % 8)
        else:
            for value in row:
                line += value.to_bytes(bits // 8, "little")
        out.append(bytes(line) + bytes(-len(line) % 4))
    return out


def bmp(rows, bits, palette=b"", size=40, masks=(), compression=0, top_down=False, data=None, colours=0, gap=0):
    """data: the pixels as they are, where they have runs."""
    width, height = len(rows[0]), len(rows)
    if data is None:
        lines = packed(rows, bits)
        data = b"".join(lines if top_down else reversed(lines))
    if size == 12:
        head = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        head = struct.pack("<IiiHHIIiiII", size, width, -height if top_down else height, 1, bits, compression,
                           len(data), 2835, 2835, colours, 0)[:max(size, 16)]
        head += b"".join(struct.pack("<I", mask) for mask in masks)
        head += bytes(max(0, size - len(head)))
    offset = 14 + len(head) + len(palette) + gap
    return b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) + head + palette + bytes(gap) + data


def runs(rows, bits, noise):
    """Every kind of code: runs, pixels as they are, skipped pixels and rows (which are 0 in rows). The last row first."""
    out = bytearray()
    for y, row in reversed(list(enumerate(rows))):
        x = 0
        while x < len(row):
            run = 1
            while x + run < len(row) and row[x + run] == row[x] and run < 255:
                run += 1
            plain = min(len(row) - x, noise.randrange(3, 20))
            if not any(row[x:]) and y > 0:
                break
            if run >= 4 and row[x] == 0 and x + run < len(row):
                out += bytes([0, 2, run, 0])
                x += run
            elif run < 3 <= plain:
                out += bytes([0, plain])
                part = row[x:x + plain]
                if bits == 8:
                    code = bytes(part)
                else:
                    code = bytes(part[i] << 4 | (part[i + 1] if i + 1 < plain else 0) for i in range(0, plain, 2))
                out += code + bytes(len(code) % 2)
                x += plain
            elif bits == 8:
                out += bytes([run, row[x]])
                x += run
            elif x + 1 < len(row):  # two pixels in turn
                pair = 2
                while x + pair < len(row) and row[x + pair] == row[x + pair % 2] and pair < 255:
                    pair += 1
                out += bytes([pair, row[x] << 4 | row[x + 1]])
                x += pair
            else:
                out += bytes([1, row[x] << 4])
                x += 1
        out += b"\0\0"
    return bytes(out[:-2]) + b"\0\1"


def scaled(value, bits):
    return value >> (bits - 8) if bits > 8 else value * 255 // ((1 << bits) - 1) if bits else 0


def masked(reference, rows, masks):
    """What rows of whole pixels mean."""
    where = [mask_of(mask) for mask in masks]
    def pixel(value):
        levels = [scaled(value >> shift & ((1 << bits) - 1), bits) for shift, bits in where]
        return tuple(levels) if len(levels) == 4 and masks[3] else (*levels[:3], 255)
    return reference.on_black([[pixel(value) for value in row] for row in rows])


def bmps(reference):
    noise = random.Random(201)

    def entries(count, grey=False):
        colours = [tuple(noise.randrange(256) for _ in range(3)) for _ in range(count)]
        return [(c[0],) * 3 for c in colours] if grey else colours

    def table(colours, size=4):
        return b"".join(bytes(reversed(c)) + bytes(size - 3) for c in colours)

    def painted(rows, colours):
        colours = list(colours) + [(0, 0, 0)] * 256
        return reference.on_black([[colours[v] + (255,) for v in row] for row in rows])

    def add(name, data, image, targets=None):
        save(reference, name, data)
        reference.expect(name, image, targets)

    for bits in (1, 4, 8):
        rows = [[p[0] for p in row] for row in reference.samples(47, 31, 1, bits, 202)]
        colours = entries(1 << bits)
        name = "palette%d" % bits
        add(name + ".bmp", bmp(rows, bits, table(colours)), painted(rows, colours))
        with Image.open(os.path.join(reference.FOLDER, name + ".bmp")) as image:  # both agree on the meaning
            assert image.convert("RGB").tobytes() == painted(rows, colours).tobytes()
        add(name + "-top-down.bmp", bmp(rows, bits, table(colours), top_down=True), painted(rows, colours), SMALL)
        add(name + "-os2.bmp", bmp(rows, bits, table(colours, 3), size=12), painted(rows, colours), SMALL)
        add(name + "-os2-short.bmp", bmp(rows, bits, table(colours), size=16), painted(rows, colours), SMALL)
        grey = entries(1 << bits, True)
        add("grey%d.bmp" % bits, bmp(rows, bits, table(grey), size=124), painted(rows, grey), SMALL)
        few = colours[:(1 << bits) - 1]  # the last index has no colour
        add(name + "-few.bmp", bmp(rows, bits, table(few), colours=len(few), gap=6), painted(rows, few), SMALL)
    rows24 = [[p[2] | p[1] << 8 | p[0] << 16 for p in row] for row in reference.samples(47, 31, 3, 8, 203)]
    plain = reference.on_black([[(v >> 16, v >> 8 & 255, v & 255, 255) for v in row] for row in rows24])
    for size in (12, 16, 40, 52, 56, 64, 108, 124):
        add("rgb24-%d.bmp" % size, bmp(rows24, 24, size=size), plain, SMALL if size != 40 else None)
    add("rgb24-top-down.bmp", bmp(rows24, 24, top_down=True), plain, SMALL)
    save(reference, "rgb24-unfilled.bmp", bmp(rows24, 24)[:-3])  # the last row need not be filled up
    reference.expect("rgb24-unfilled.bmp", plain, SMALL)
    wide = [[noise.getrandbits(32) for _ in range(47)] for _ in range(31)]
    short = [[v & 0xFFFF for v in row] for row in wide]
    plain16, plain32 = (0x7C00, 0x3E0, 0x1F), (0xFF0000, 0xFF00, 0xFF)
    add("rgb16.bmp", bmp(short, 16), masked(reference, short, plain16))
    add("rgb32.bmp", bmp(wide, 32), masked(reference, wide, plain32))
    for name in ("rgb16.bmp", "rgb32.bmp"):
        with Image.open(os.path.join(reference.FOLDER, name)) as image:
            rows, masks = (short, plain16) if "16" in name else (wide, plain32)
            assert image.convert("RGB").tobytes() == masked(reference, rows, masks).tobytes()
    for name, bits, masks, size in (
        ("565", 16, (0xF800, 0x7E0, 0x1F), 40), ("565-v2", 16, (0xF800, 0x7E0, 0x1F), 52), ("4444", 16, (0xF00, 0xF0, 0xF, 0xF000), 56),
        ("1555", 16, (0x7C00, 0x3E0, 0x1F, 0x8000), 108), ("8888", 32, (0xFF0000, 0xFF00, 0xFF, 0xFF000000), 124),
        ("abgr", 32, (0xFF, 0xFF00, 0xFF0000, 0xFF000000), 108), ("opaque", 32, (0xFF000000, 0xFF0000, 0xFF00, 0), 108),
        ("1010102", 32, (0x3FF00000, 0xFFC00, 0x3FF, 0xC0000000), 124), ("no-green", 32, (0xFF, 0, 0xFF00), 40),
        ("one-wide", 32, (0xFFFF0000, 0xFF00, 0xFF), 40),
    ):
        rows = short if bits == 16 else wide
        add("fields-%s.bmp" % name, bmp(rows, bits, size=size, masks=masks, compression=3), masked(reference, rows, masks), SMALL)
    masks = (0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    add("fields-alpha-40.bmp", bmp(wide, 32, masks=masks, compression=6), masked(reference, wide, masks), SMALL)
    for bits in (8, 4):
        rows = []
        for y in range(31):
            row = [min((1 << bits) - 1, x // 9 * (y // 4) + (noise.randrange(5) if (x + y) // 12 % 3 == 0 else 0)) for x in range(47)]
            rows.append([0] * 47 if y % 11 == 5 else [0 if 20 <= x < 30 and y > 20 else v for x, v in enumerate(row)])
        colours = entries(1 << bits)
        coded = bmp(rows, bits, table(colours), compression=1 if bits == 8 else 2, data=runs(rows, bits, noise))
        add("runs%d.bmp" % bits, coded, painted(rows, colours))
        add("runs%d-without-end.bmp" % bits, coded[:-2], painted(rows, colours), SMALL)
    # Rows that are skipped, runs beyond the row, an end before the last row: index 0.
    colours = entries(256)
    rows = [[0] * 10 for _ in range(8)]
    rows[7] = [5] * 10
    rows[6][3:] = [6] * 7
    rows[3][4:6] = [7, 8]
    data = bytes([200, 5, 0, 0, 0, 2, 3, 0, 99, 6, 0, 0, 0, 2, 4, 2, 1, 7, 1, 8, 0, 1])
    add("runs8-skips.bmp", bmp(rows, 8, table(colours), compression=1, data=data), painted(rows, colours),
        [(10, 8, 3, "stretch"), (10, 8, 1, "stretch"), (32, 32, 3, "stretch")])
    for mode in ("1", "L", "RGB", "RGBA", "P"):
        name = "pillow-%s.bmp" % mode
        save(reference, name, encoded(reference.picture("RGBA", 47, 31, 204).convert("RGB").convert(mode), "BMP"))
        reference.by_pillow(name, SMALL)


# --- GIF ----------------------------------------------------------------------------------------------------------

def gif_blocks(data):
    """Where the first frame's descriptor begins."""
    at = 13 + (3 << (data[10] & 7) + 1 if data[10] & 0x80 else 0)
    while data[at] == 0x21:
        at += 2
        while data[at]:
            at += data[at] + 1
        at += 1
    assert data[at] == 0x2C
    return at


def gifs(reference):
    def add(name, data, image, targets=None):
        save(reference, name, data)
        reference.expect(name, image, targets)

    rgb = reference.picture("RGB", 47, 31, 301)
    for colours in (2, 4, 16, 256):
        for interlace in (0, 1):
            image = rgb.quantize(colours)
            name = "palette%d%s.gif" % (colours, "-interlaced" if interlace else "")
            add(name, encoded(image, "GIF", interlace=interlace, optimize=False), image.convert("RGB"))
    grey = reference.picture("L", 47, 31, 302)
    add("grey.gif", encoded(grey, "GIF"), grey.convert("RGB"))
    large = reference.picture("RGB", 300, 200, 303).quantize(256)  # the table of codes becomes full
    add("large.gif", encoded(large, "GIF"), large.convert("RGB"), [(300, 200, 3, "stretch"), (32, 32, 1, "crop")])
    for height in (1, 2, 3, 4, 5, 7, 8, 9):
        image = reference.picture("RGB", 11, height, 304).quantize(32)
        name = "interlaced-11x%d.gif" % height
        add(name, encoded(image, "GIF", interlace=1), image.convert("RGB"), [(11, height, 3, "stretch"), (32, 32, 3, "stretch")])
    # Transparent: black. Other frames do not matter.
    image = rgb.quantize(16)
    palette = image.getpalette()
    index = image.getpixel((20, 20))
    shown = image.convert("RGB")
    shown.putdata([(0, 0, 0) if v == index else tuple(palette[v * 3:v * 3 + 3]) for v in image.getdata()])
    add("transparent.gif", encoded(image, "GIF", transparency=index, optimize=False), shown)
    others = [rgb.rotate(90 * i).quantize(16) for i in (1, 2)]
    add("animated.gif", encoded(image, "GIF", save_all=True, append_images=others, duration=50, optimize=False), image.convert("RGB"))
    # A frame that is smaller than its screen, and one that reaches beyond it.
    data = bytearray(encoded(image, "GIF", interlace=1, optimize=False))
    at = gif_blocks(data)
    for name, screen, left, top, size in (("part", (60, 50), 5, 12, (60, 50)), ("beyond", (20, 10), 3, 4, (50, 35)),
                                          ("no-screen", (0, 0), 0, 0, (47, 31))):
        data[6:10] = struct.pack("<HH", *screen)
        data[at + 1:at + 5] = struct.pack("<HH", left, top)
        canvas = Image.new("RGB", size)
        canvas.paste(image.convert("RGB"), (left, top))
        add("frame-%s.gif" % name, bytes(data), canvas, [(*size, 3, "stretch"), (*size, 1, "stretch"), (32, 32, 3, "stretch")])
    # A palette of the frame's own, and comments before it.
    data = bytearray(encoded(image, "GIF", interlace=0, optimize=False, comment=b"c" * 700))
    at = gif_blocks(data)
    table = bytes(data[13:13 + (3 << (data[10] & 7) + 1)])
    local = data[:at + 9] + bytes([0x80 | data[10] & 7]) + bytes(255 - v for v in table) + data[at + 10:]
    shown = Image.new("RGB", image.size)
    shown.putdata([tuple(255 - v for v in table[i * 3:i * 3 + 3]) for i in image.getdata()])
    add("own-palette.gif", bytes(local), shown, SMALL)


def write(reference):
    webps(reference)
    bmps(reference)
    gifs(reference)
