#!/usr/bin/python3
"""Writes test images and the rows that they must become, for tests/unit/server/image/image_reference.c.

    image_reference.py FOLDER

FOLDER gets the images, one .raw file for every expected row, and manifest.txt with a line for each row:

    IMAGE ROW WIDTH HEIGHT CHANNELS stretch|crop|pad FILTER COVER COLOR TOLERANCE

FILTER is Pillow's name; COVER the side that a crop's shorter side is brought to, or 0; COLOR what padding is painted with, RRGGBB.
The reference is Pillow: what it decodes, its exif_transpose, its convert(), its resize() and its ImageOps.pad; of two
axes resize() is asked for one after the other, in the order of Pillow 13, which earlier versions do not have. Where Pillow's own
meaning differs from the rules in server/image/image.h (alpha on black, the high byte of 16 bits) the rule is computed here
from the samples that were written. Exits with 77 when Pillow is missing.
"""
import os
import random
import struct
import sys
import zlib

try:
    from PIL import Image, ImageOps
except ImportError:
    print("python3-pil is missing", file=sys.stderr)
    sys.exit(77)

import image_formats

FOLDER = sys.argv[1]
MANIFEST = []
FILTERS = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS, "nearest": Image.NEAREST}
# Width, height, channels, fit, filter, cover, colour. 47 x 31 is the size of most images here: no resampling.
PLAIN = [
    (47, 31, 3, "stretch"), (47, 31, 1, "stretch"),
    (32, 32, 3, "stretch"), (20, 13, 1, "stretch"), (101, 67, 3, "stretch"), (31, 64, 3, "stretch"),
    (32, 32, 3, "crop"), (28, 28, 1, "crop"), (64, 64, 3, "crop"), (50, 20, 3, "crop"), (20, 50, 1, "crop"),
    (47, 29, 3, "crop"), (31, 31, 3, "crop"), (1, 1, 3, "stretch"),
]
TARGETS = [(*target, "bilinear", 0, "000000") for target in PLAIN]
# Of every filter and fit, on some of the images.
MORE = [(width, height, channels, how, name, cover, color)
        for name in FILTERS
        for width, height, channels, how, cover, color in (
            (32, 32, 3, "stretch", 0, "000000"), (20, 13, 1, "stretch", 0, "000000"), (101, 67, 3, "stretch", 0, "000000"),
            (47, 64, 3, "stretch", 0, "000000"), (60, 31, 1, "stretch", 0, "000000"),
            (28, 28, 3, "stretch", 33, "000000"), (24, 20, 1, "stretch", 60, "000000"),
            (28, 28, 3, "crop", 32, "000000"), (24, 24, 1, "crop", 27, "000000"), (40, 30, 3, "crop", 57, "000000"),
            (31, 31, 3, "crop", 31, "000000"),
            (33, 32, 3, "crop", 40, "000000"), (32, 32, 3, "pad", 0, "7f1005"), (40, 40, 1, "pad", 0, "7f1005"),
            (90, 31, 3, "pad", 0, "ffffff"), (20, 60, 3, "pad", 0, "102030"), (47, 31, 3, "pad", 0, "102030"))]


# --- the rows that an RGB image must become -------------------------------------------------------------------

def brought_to(image, size, name):
    """What image.resize(size) is since Pillow 13: rows go first where the height loses more than twice as many pixels as the
    width."""
    lost_width, lost_height = image.width - size[0], image.height - size[1]
    rows_first = lost_height > max(0, 2 * lost_width)
    between = (image.width, size[1]) if rows_first else (size[0], image.height)
    return image.resize(between, FILTERS[name]).resize(size, FILTERS[name])


def fit(image, width, height, how, name, cover, color):
    if how == "pad":
        if image.mode == "L":
            color = Image.new("RGB", (1, 1), "#" + color).convert("L").getpixel((0, 0))
        else:
            color = "#" + color
        contained = ImageOps.contain(image, (width, height), Image.NEAREST).size
        return ImageOps.pad(brought_to(image, contained, name), (width, height), FILTERS[name], color)
    # torchvision's Resize, of both sides or of the smaller edge (for any target: the smallest scale that covers it), and
    # CenterCrop.
    w, h = image.size
    cover_w, cover_h = (cover, cover) if cover else (width, height)
    if how == "stretch":
        scaled = (cover_w, cover_h)
    elif cover_w * h >= cover_h * w:
        scaled = (cover_w, int(cover_w * h / w))
    else:
        scaled = (int(cover_h * w / h), cover_h)
    image = brought_to(image, scaled, name)
    left = int(round((scaled[0] - width) / 2.0))
    top = int(round((scaled[1] - height) / 2.0))
    return image.crop((left, top, left + width, top + height))


def expect(name, rgb, targets=None, exact=0):
    """rgb: the whole image in mode RGB, already turned."""
    for width, height, channels, *how in targets or TARGETS:
        how = how if len(how) > 1 else [*how, "bilinear", 0, "000000"]
        image = rgb.convert("L") if channels == 1 else rgb
        resampled = image.size != (width, height)
        row = fit(image, width, height, *how)
        assert row.size == (width, height)
        raw = "%s.%dx%dx%d.%s.raw" % (name, width, height, channels, "-".join(map(str, how)))
        with open(os.path.join(FOLDER, raw), "wb") as out:
            out.write(row.tobytes())
        MANIFEST.append("%s %s %d %d %d %s %d" %
                        (name, raw, width, height, channels, " ".join(map(str, how)), 1 if resampled else exact))


def by_pillow(name, targets=None):
    with Image.open(os.path.join(FOLDER, name)) as image:
        expect(name, ImageOps.exif_transpose(image).convert("RGB"), targets)


# --- pictures ---------------------------------------------------------------------------------------------------

def samples(width, height, channels, bits, seed):
    """Rows of pixels (tuples): gradients with noise on them and hard edges, in 0 .. 2^bits - 1."""
    noise = random.Random(seed)
    top = (1 << bits) - 1
    rows = []
    for y in range(height):
        row = []
        for x in range(width):
            pixel = []
            for c in range(channels):
                value = (x * (c + 1) / (width + 1) + y / (height + 1)) / (c + 2) + noise.uniform(-0.12, 0.12)
                if (x // 5 + y // 7 + c) % 4 == 0:
                    value = 1.0 - value
                pixel.append(min(top, max(0, round(value * top))))
            row.append(tuple(pixel))
        rows.append(row)
    return rows


def picture(mode, width, height, seed):
    channels = len(Image.new(mode, (1, 1)).getbands())
    image = Image.new(mode, (width, height))
    pixels = [p for row in samples(width, height, channels, 8, seed) for p in row]
    image.putdata(pixels if channels > 1 else [p[0] for p in pixels])
    return image


# --- EXIF -------------------------------------------------------------------------------------------------------

def exif(orientation, order="<", kind=3):
    """A TIFF with two entries; kind is the type of the orientation's value: 1 BYTE, 3 SHORT, 4 LONG."""
    mark = b"II" if order == "<" else b"MM"
    value = struct.pack(order + {1: "B3x", 3: "H2x", 4: "I"}[kind], orientation)
    entries = struct.pack(order + "HHI", 0x0100, 4, 1) + struct.pack(order + "I", 47)
    entries += struct.pack(order + "HHI", 0x0112, kind, 1) + value
    return mark + struct.pack(order + "HIH", 42, 8, 2) + entries + struct.pack(order + "I", 0)


# --- PNG, written here because Pillow writes neither interlaced nor all of the depths -----------------------------

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed(row, bits):
    if bits == 16:
        return b"".join(struct.pack(">H", v) for pixel in row for v in pixel)
    if bits == 8:
        return bytes(v for pixel in row for v in pixel)
    out = bytearray((len(row) * bits + 7) // 8)
    for x, (v,) in enumerate(row):
        out[x * bits // 8] |= v << (8 - bits - x * bits % 8)
    return bytes(out)


def filtered(rows, bits, channels):
    """Each line with the filter types 0 to 4 in turn (PNG, section 9.2)."""
    unit = max(1, bits * channels // 8)
    out = b""
    before = None
    for y, row in enumerate(rows):
        line = packed(row, bits)
        before = before or bytes(len(line))
        kind = y % 5
        out += bytes([kind])
        for x, value in enumerate(line):
            a = line[x - unit] if x >= unit else 0
            b = before[x]
            c = before[x - unit] if x >= unit else 0
            if kind == 4:
                distances = [(abs(a + b - c - v), i) for i, v in enumerate((a, b, c))]
                guess = (a, b, c)[min(distances)[1]]
            else:
                guess = (0, a, b, (a + b) // 2)[kind]
            out += bytes([(value - guess) & 255])
        before = line
    return out


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png(name, rows, bits, kind, interlaced=False, before=b"", after=b""):
    """kind: the colour type of IHDR. before and after: chunks before and after the pixels."""
    channels = len(rows[0][0])
    if interlaced:
        data = b""
        for x0, y0, dx, dy in ADAM7:
            part = [row[x0::dx] for row in rows[y0::dy]]
            if part and part[0]:
                data += filtered(part, bits, channels)
    else:
        data = filtered(rows, bits, channels)
    packed_data = zlib.compress(data)
    half = len(packed_data) // 2
    with open(os.path.join(FOLDER, name), "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n")
        out.write(chunk(b"IHDR", struct.pack(">IIBBBBB", len(rows[0]), len(rows), bits, kind, 0, 0, int(interlaced))))
        out.write(before)
        out.write(chunk(b"IDAT", packed_data[:half]) + chunk(b"IDAT", packed_data[half:]))
        out.write(after + chunk(b"IEND", b""))


def on_black(rows):
    """Rows of (r, g, b, a), 8 bits each, as an RGB image: round(c a / 255)."""
    image = Image.new("RGB", (len(rows[0]), len(rows)))
    image.putdata([tuple((c * a * 2 + 255) // 510 for c in (r, g, b)) for row in rows for r, g, b, a in row])
    return image


def as_rgba(rows, bits, transparent=None):
    """The image decoder's rule for grey, grey + alpha, RGB and RGBA samples."""
    def eight(v):
        return v >> 8 if bits == 16 else v * 255 // ((1 << bits) - 1)
    out = []
    for row in rows:
        line = []
        for pixel in row:
            alpha = pixel[-1] if len(pixel) in (2, 4) else (0 if pixel == transparent else (1 << bits) - 1)
            colour = pixel[:3] if len(pixel) >= 3 else (pixel[0],) * 3
            line.append(tuple(eight(v) for v in colour) + (eight(alpha),))
        out.append(line)
    return out


# --- the families -------------------------------------------------------------------------------------------------

def jpegs():
    def save(name, image, targets=None, **options):
        image.save(os.path.join(FOLDER, name), "JPEG", **options)
        by_pillow(name, targets)

    rgb = picture("RGB", 47, 31, 1)
    save("444.jpg", rgb, subsampling=0, quality=95)
    save("422.jpg", rgb, subsampling=1)
    save("420.jpg", rgb, subsampling=2)
    save("progressive.jpg", rgb, progressive=True)
    save("grey.jpg", picture("L", 47, 31, 2))
    save("progressive-grey.jpg", picture("L", 47, 31, 2), progressive=True)
    save("cmyk.jpg", picture("CMYK", 47, 31, 3))
    save("cmyk-turned.jpg", picture("CMYK", 31, 47, 3), exif=b"Exif\0\0" + exif(8))
    for orientation in range(0, 10):
        size = (31, 47) if 5 <= orientation <= 8 else (47, 31)
        order = "<>"[orientation % 2]
        kind = (3, 4, 1)[orientation % 3] if orientation in (2, 4) else 3
        save("exif%d.jpg" % orientation, picture("RGB", *size, 4), exif=b"Exif\0\0" + exif(orientation, order, kind))
        save("exif%d-grey.jpg" % orientation, picture("L", *size, 4), TARGETS[:4],
             exif=b"Exif\0\0" + exif(orientation, order))
    small = [(32, 32, 3, "stretch"), (32, 32, 1, "crop"), (5, 3, 3, "stretch")]
    for width, height in ((1, 1), (1, 17), (17, 1), (2, 3), (7, 9), (8, 8), (15, 16), (33, 31), (32, 32)):
        save("size-%dx%d.jpg" % (width, height), picture("RGB", width, height, 5), small)
    save("photo.jpg", picture("RGB", 500, 375, 6),
         [(224, 224, 3, "crop"), (224, 224, 3, "stretch"), (32, 32, 3, "stretch"), (28, 28, 1, "crop"),
          (500, 20, 3, "stretch"), (20, 375, 3, "stretch"), (500, 100, 3, "crop"), (100, 375, 1, "crop")])
    narrow = [(32, 32, 3, "stretch"), (32, 32, 1, "stretch"), (32, 32, 3, "crop"), (5, 40, 1, "crop")]
    save("narrow.jpg", picture("RGB", 3, 1500, 7), narrow)
    save("wide.jpg", picture("RGB", 1500, 3, 7), narrow)
    # YCCK is stored by no encoder at hand: CMYK data whose Adobe marker says YCCK is one.
    with open(os.path.join(FOLDER, "cmyk.jpg"), "rb") as source:
        data = source.read()
    at = data.index(b"Adobe") + 11
    with open(os.path.join(FOLDER, "ycck.jpg"), "wb") as out:
        out.write(data[:at] + b"\2" + data[at + 1:])
    by_pillow("ycck.jpg")
    # Harmless: bytes between segments, a tail after EOI.
    with open(os.path.join(FOLDER, "420.jpg"), "rb") as source:
        data = source.read()
    at = data.index(b"\xff\xdb")
    with open(os.path.join(FOLDER, "noise.jpg"), "wb") as out:
        out.write(data[:at] + b"\0\1\2\3" + data[at:] + b"<html>tail</html>" * 99)
    with Image.open(os.path.join(FOLDER, "420.jpg")) as image:
        expect("noise.jpg", image.convert("RGB"), TARGETS[:3])


def pngs():
    palette_noise = random.Random(9)
    turned = [(47, 31, 3, "stretch"), (32, 32, 3, "stretch"), (20, 50, 1, "crop")]
    for interlaced in (False, True):
        end = "-interlaced.png" if interlaced else ".png"
        for bits in (1, 2, 4, 8, 16):
            rows = samples(47, 31, 1, bits, 10 + bits)
            png("grey%d%s" % (bits, end), rows, bits, 0, interlaced)
            if bits <= 8:
                by_pillow("grey%d%s" % (bits, end))
            else:
                expect("grey16%s" % end, on_black(as_rgba(rows, bits)))
            transparent = rows[3][4]
            name = "grey%d-trns%s" % (bits, end)
            png(name, rows, bits, 0, interlaced, chunk(b"tRNS", struct.pack(">H", *transparent)))
            expect(name, on_black(as_rgba(rows, bits, transparent)))
        for bits in (1, 2, 4, 8):
            entries = [tuple(palette_noise.randrange(256) for _ in range(3)) for _ in range(1 << bits)]
            rows = samples(47, 31, 1, bits, 30 + bits)
            plte = chunk(b"PLTE", bytes(v for e in entries for v in e))
            png("palette%d%s" % (bits, end), rows, bits, 3, interlaced, plte)
            by_pillow("palette%d%s" % (bits, end))
            alphas = [palette_noise.randrange(256) for _ in range(max(1, len(entries) - 2))]
            name = "palette%d-trns%s" % (bits, end)
            png(name, rows, bits, 3, interlaced, plte + chunk(b"tRNS", bytes(alphas)))
            alphas += [255] * (len(entries) - len(alphas))
            expect(name, on_black([[entries[v] + (alphas[v],) for (v,) in row] for row in rows]))
        for bits in (8, 16):
            rows = samples(47, 31, 3, bits, 40 + bits)
            png("rgb%d%s" % (bits, end), rows, bits, 2, interlaced)
            by_pillow("rgb%d%s" % (bits, end))
            name = "rgb%d-trns%s" % (bits, end)
            if bits == 16:  # one that shares its high bytes with the transparent colour must stay
                rows[5][6] = tuple(v ^ 1 for v in rows[7][8])
            png(name, rows, bits, 2, interlaced, chunk(b"tRNS", struct.pack(">HHH", *rows[7][8])))
            expect(name, on_black(as_rgba(rows, bits, rows[7][8])))
            for kind, channels, label in ((4, 2, "la"), (6, 4, "rgba")):
                rows = samples(47, 31, channels, bits, 50 + bits)
                png("%s%d%s" % (label, bits, end), rows, bits, kind, interlaced)
                expect("%s%d%s" % (label, bits, end), on_black(as_rgba(rows, bits)))
        for orientation in range(1, 9):
            size = (31, 47) if orientation >= 5 else (47, 31)
            note = chunk(b"eXIf", exif(orientation, "<>"[orientation % 2]))
            for label, channels, kind in (("rgb", 3, 2), ("rgba", 4, 6), ("grey", 1, 0)):
                rows = samples(*size, channels, 8, 60)
                name = "exif%d-%s%s" % (orientation, label, end)
                # Half of them after the pixels, where PNG allows it too.
                png(name, rows, 8, kind, interlaced, *((note, b"") if orientation % 2 else (b"", note)))
                flat = on_black(as_rgba(rows, 8))
                way = {2: Image.FLIP_LEFT_RIGHT, 3: Image.ROTATE_180, 4: Image.FLIP_TOP_BOTTOM, 5: Image.TRANSPOSE,
                       6: Image.ROTATE_270, 7: Image.TRANSVERSE, 8: Image.ROTATE_90}.get(orientation)
                expect(name, flat if way is None else flat.transpose(way), turned)
        for width, height in ((1, 1), (1, 9), (9, 1), (2, 2), (3, 5), (5, 3), (4, 4)):
            rows = samples(width, height, 3, 8, 70)
            name = "size-%dx%d%s" % (width, height, end)
            png(name, rows, 8, 2, interlaced)
            by_pillow(name, [(32, 32, 3, "stretch"), (16, 9, 3, "crop"), (1, 1, 1, "stretch")])
    # Ballast that must neither cost nor fail anything: text that inflates to 64 MiB, a profile of rubbish, a chunk
    # with a wrong checksum, 20,000 small chunks, a tail after IEND.
    rows = samples(47, 31, 3, 8, 80)
    bomb = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(1 << 26), 9))
    wrong = bytearray(chunk(b"tEXt", b"Comment\0hello"))
    wrong[-1] ^= 1
    many = chunk(b"tEXt", b"a\0b") * 20000
    png("ballast.png", rows, 8, 2, False,
        bomb + chunk(b"iCCP", b"p\0\0rubbish") + bytes(wrong) + many + chunk(b"tEXt", b"k\0" + bytes(5 << 20)),
        bomb)
    with open(os.path.join(FOLDER, "ballast.png"), "ab") as out:
        out.write(b"tail" * 1000)
    plain = Image.new("RGB", (47, 31))
    plain.putdata([p for row in rows for p in row])
    expect("ballast.png", plain, TARGETS[:3])
    # One even grey, so that the answer is known without Pillow, whose weights round to nothing here.
    for name, width, height in (("endless-wide.png", 50000000, 1), ("endless-tall.png", 1, 2000000)):
        line = b"\0" + b"\x60" * width
        data = zlib.compress(line * height, 1)
        with open(os.path.join(FOLDER, name), "wb") as out:
            out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)))
            out.write(chunk(b"IDAT", data) + chunk(b"IEND", b""))
        for target in ((32, 32, 3, "stretch"), (32, 32, 1, "crop"), (3, 2, 1, "stretch")):
            expect(name, Image.new("RGB", target[:2], (0x60,) * 3), [target])


def resized():
    """Noise, a gradient and an edge in one picture: what filters with negative weights change most."""
    for width, height in ((47, 31), (500, 375), (375, 500), (300, 300), (640, 41), (20, 333), (33, 32), (3, 5), (1, 1)):
        bands = [Image.effect_noise((width, height), 80), Image.linear_gradient("L").resize((width, height)),
                 Image.radial_gradient("L").resize((width, height)).point(lambda level: 255 * (level > 128))]
        name = "resized-%dx%d.png" % (width, height)
        Image.merge("RGB", bands).save(os.path.join(FOLDER, name))
        by_pillow(name, MORE)


jpegs()
pngs()
resized()
image_formats.write(sys.modules[__name__])
with open(os.path.join(FOLDER, "manifest.txt"), "w") as out:
    out.write("\n".join(MANIFEST) + "\n")
