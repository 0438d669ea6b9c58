#!/usr/bin/env python3
"""known_jpeg.py: prints the arrays of engine/cuda/decode/jpeg_known.c: a JPEG file of 33 x 26, and the pixels that it becomes when it is turned
upright (EXIF orientation 6) and resized to 13 x 16, by libjpeg-turbo and Pillow.

The picture has sharp edges and slopes in all channels, so that each 8 x 8 block has coefficients of many frequencies, and sides that are no multiple
of a block's, so that the last ones are cut."""

import io

from PIL import Image, ImageOps

WIDTH, HEIGHT, TO = 33, 26, (13, 16)


def pixel(x, y):
    edge = 90 if (x // 5 + y // 7) % 2 else 0
    return 20 + 4 * x + edge, 230 - 5 * y - edge, 40 + 3 * x + 4 * y


def show(name, data):
    print(f"static const uint8_t {name}[] = {{")
    for at in range(0, len(data), 16):
        print("    " + " ".join(f"0x{byte:02x}," for byte in data[at : at + 16]))
    print("};\n")


picture = Image.new("RGB", (WIDTH, HEIGHT))
picture.putdata([pixel(x, y) for y in range(HEIGHT) for x in range(WIDTH)])
file = io.BytesIO()
exif = Image.Exif()
exif[0x0112] = 6  # Orientation
picture.save(file, "JPEG", quality=80, subsampling="4:2:0", optimize=True, exif=exif)
show("file", file.getvalue())
decoded = ImageOps.exif_transpose(Image.open(io.BytesIO(file.getvalue())))
show("pixels", decoded.resize(TO, Image.BILINEAR).tobytes())
