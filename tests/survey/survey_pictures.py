"""Thirty photographs made by a program: the same bytes' pixels each time, whatever the machine.

Sizes from 1 x 1 to 4000 x 3000, both formats, all EXIF orientations, grey, palette, alpha, and contents that show a filter's
faults: noise, single pixels, sharp edges, slow gradients."""

import io

import numpy
from PIL import Image, ImageOps


def gradients(width, height, chance):
    """Slow waves with a little noise: what most of a photograph looks like."""
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.float32)
    bands = []
    for _ in range(3):
        across, down, phase = chance.uniform(0.5, 4), chance.uniform(0.5, 4), chance.uniform(0, 6)
        wave = numpy.sin(phase + 6.28 * (across * x / width + down * y / height))
        bands.append(128 + 110 * wave + chance.standard_normal((height, width), numpy.float32) * 6)
    return numpy.stack(bands, 2)


def noise(width, height, chance):
    return chance.integers(0, 256, (height, width, 3))


def edges(width, height, chance):
    """Rectangles of full colours over each other."""
    picture = numpy.zeros((height, width, 3))
    for _ in range(60):
        left, top = chance.integers(0, width), chance.integers(0, height)
        wide, high = chance.integers(1, width // 3 + 2), chance.integers(1, height // 3 + 2)
        picture[top : top + high, left : left + wide] = chance.choice([0, 255], 3)
    return picture


def checks(width, height, chance):
    """Black and white pixels in turns: bicubic and lanczos overshoot here."""
    del chance
    y, x = numpy.mgrid[0:height, 0:width]
    return numpy.repeat(((x + y) % 2 * 255)[:, :, None], 3, 2)


def lines(width, height, chance):
    """White lines one pixel thin on black, further and further apart."""
    del chance
    picture = numpy.zeros((height, width, 3))
    for i in range(1, 60):
        picture[i * (i + 1) // 2 % height] = 255
        picture[:, i * (i + 1) // 2 % width] = (255, 0, 255)
    return picture


# Content, width, height, format and its options; mode: of Pillow, RGB unless it says so; orientation: EXIF's.
PICTURES = [
    (gradients, 4000, 3000, "JPEG", {"quality": 90}),
    (edges, 3000, 4000, "JPEG", {"quality": 85}),
    (gradients, 1920, 1080, "JPEG", {"quality": 80, "progressive": True}),
    (noise, 1, 700, "PNG", {}),
    (noise, 700, 1, "PNG", {}),
    (gradients, 1, 1, "PNG", {}),
    (noise, 2, 3, "PNG", {}),
    (noise, 333, 257, "PNG", {}),
    (edges, 257, 333, "PNG", {}),
    (checks, 511, 509, "PNG", {}),
    (lines, 640, 427, "PNG", {}),
    (lines, 300, 900, "JPEG", {"quality": 95, "subsampling": 0}),
    (noise, 224, 224, "PNG", {}),
    (edges, 256, 256, "JPEG", {"quality": 75}),
    (gradients, 17, 900, "PNG", {}),
    (gradients, 1200, 90, "JPEG", {"quality": 60}),
    (gradients, 500, 375, "JPEG", {"quality": 75, "mode": "L"}),
    (noise, 301, 401, "PNG", {"mode": "L"}),
    (edges, 150, 150, "PNG", {"mode": "1"}),
    (edges, 411, 303, "PNG", {"mode": "P"}),
    (gradients, 360, 240, "PNG", {"mode": "RGBA"}),
    (noise, 239, 331, "PNG", {"mode": "LA"}),
    (gradients, 640, 480, "JPEG", {"orientation": 2}),
    (edges, 480, 641, "JPEG", {"orientation": 3}),
    (lines, 401, 300, "JPEG", {"orientation": 4}),
    (gradients, 300, 401, "JPEG", {"orientation": 5}),
    (gradients, 1024, 683, "JPEG", {"orientation": 6}),
    (edges, 683, 1024, "PNG", {"orientation": 7}),
    (gradients, 800, 533, "JPEG", {"orientation": 8, "mode": "L"}),
    (gradients, 600, 450, "JPEG", {"mode": "CMYK"}),
]


def encoded(index):
    """(a name for people, the bytes of the file) of picture `index`."""
    content, width, height, kind, options = PICTURES[index]
    options = dict(options)
    mode, orientation = options.pop("mode", "RGB"), options.pop("orientation", 1)
    chance = numpy.random.default_rng(index)
    image = Image.fromarray(numpy.clip(content(width, height, chance), 0, 255).astype(numpy.uint8))
    if mode in ("RGBA", "LA"):
        image = image.convert(mode)
        image.putalpha(Image.fromarray(chance.integers(0, 256, (height, width), numpy.uint8)))
    elif mode == "P":
        image = image.quantize(32)
    elif mode != "RGB":
        image = image.convert(mode)
    if orientation != 1:
        exif = Image.Exif()
        exif[0x0112] = orientation
        options["exif"] = exif
    file = io.BytesIO()
    image.save(file, kind, **options)
    name = f"{content.__name__} {width} x {height} {mode} {kind}"
    return name + (f", orientation {orientation}" if orientation != 1 else ""), file.getvalue()


def opened(file):
    """The picture that the transforms of torchvision and timm are given: upright, alpha laid on black as the daemon
    documents it (convert("RGB") would leave out the alpha), RGB."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
    if image.mode in ("RGBA", "LA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image)
    return image.convert("RGB")
