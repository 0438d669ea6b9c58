#!/usr/bin/env python3
"""Draws the sample images that ship with convoyd: a ship, an airplane, a truck, an automobile.

    python3 models/samples/draw.py [FOLDER]

They are simple scenes made of polygons and ellipses, so that the project holds a picture to classify that
belongs to nobody else. The file's name is the class that both CIFAR-10 networks should give it. Only Pillow is
needed; the same version of Pillow draws the same bytes (those here are of Pillow 9.4, Debian 12's)."""

import pathlib
import sys

from PIL import Image, ImageDraw

SIZE = 128
# Everything is drawn at four times the size and reduced, which smooths the edges: ImageDraw itself does not.
OVER = 4


class Scene:
    """A canvas of 128 x 128 units whose shapes are given in units."""

    def __init__(self, top, bottom):
        self.image = Image.new("RGB", (SIZE * OVER, SIZE * OVER))
        self.draw = ImageDraw.Draw(self.image)
        self.gradient(0, SIZE, top, bottom)

    def gradient(self, y0, y1, top, bottom):
        """Fills the rows from y0 to y1 with colours that go from top to bottom."""
        for y in range(round(y0 * OVER), round(y1 * OVER)):
            t = (y / OVER - y0) / (y1 - y0)
            colour = tuple(round(a + (b - a) * t) for a, b in zip(top, bottom))
            self.draw.line([(0, y), (SIZE * OVER, y)], fill=colour)

    def polygon(self, points, colour):
        self.draw.polygon([(x * OVER, y * OVER) for x, y in points], fill=colour)

    def box(self, x0, y0, x1, y1, colour):
        self.polygon([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], colour)

    def ellipse(self, x, y, rx, ry, colour):
        self.draw.ellipse([(x - rx) * OVER, (y - ry) * OVER, (x + rx) * OVER, (y + ry) * OVER], fill=colour)

    def save(self, path):
        self.image.resize((SIZE, SIZE), Image.Resampling.LANCZOS).save(path, quality=92)


def wheel(scene, x, y, radius):
    scene.ellipse(x, y, radius, radius, (24, 24, 26))
    scene.ellipse(x, y, radius * 0.5, radius * 0.5, (150, 152, 156))


def ship():
    """A freighter with a dark hull and a white bridge on blue water."""
    s = Scene((166, 200, 232), (214, 228, 240))
    s.gradient(78, SIZE, (58, 104, 150), (30, 66, 108))
    s.box(74, 40, 104, 66, (240, 240, 238))
    s.box(78, 30, 98, 42, (226, 228, 230))
    for x in range(78, 101, 6):
        s.box(x, 46, x + 3, 50, (60, 70, 90))
        s.box(x, 55, x + 3, 59, (60, 70, 90))
    s.box(82, 16, 93, 30, (190, 52, 40))
    s.box(82, 16, 93, 20, (30, 30, 34))
    s.box(37, 28, 39, 66, (90, 90, 96))
    s.polygon([(38, 28), (62, 62), (60, 63), (37, 32)], (90, 90, 96))
    s.box(22, 57, 68, 66, (176, 92, 60))
    s.polygon([(6, 62), (118, 66), (108, 90), (18, 90)], (36, 44, 62))
    s.polygon([(16, 85), (110, 85), (108, 91), (18, 91)], (150, 44, 38))
    for i, y in enumerate(range(98, 126, 7)):
        for x in range(4 + 13 * (i % 2), SIZE, 34):
            s.box(x, y, x + 14, y + 1, (96, 140, 180))
    return s


def airplane():
    """An airliner seen from the side against the sky."""
    s = Scene((92, 148, 214), (186, 214, 240))
    s.ellipse(26, 106, 30, 7, (222, 234, 246))
    s.ellipse(98, 24, 26, 6, (206, 224, 242))
    s.polygon([(22, 66), (12, 36), (22, 36), (40, 60)], (40, 66, 128))
    s.polygon([(18, 66), (6, 58), (14, 57), (34, 64)], (176, 182, 192))
    s.polygon(
        [(14, 64), (30, 58), (100, 56), (112, 60), (118, 66), (110, 72), (96, 75), (36, 74)], (238, 240, 244)
    )
    s.polygon([(20, 68), (117, 67), (110, 72), (96, 75), (36, 74)], (186, 192, 202))
    for x in range(36, 100, 6):
        s.box(x, 62, x + 3, 65, (56, 72, 104))
    s.polygon([(104, 59), (111, 61), (113, 63), (104, 63)], (40, 50, 72))
    s.polygon([(74, 70), (56, 70), (30, 96), (38, 97)], (128, 136, 150))
    s.ellipse(58, 81, 8, 4, (88, 94, 108))
    return s


def truck():
    """A box truck on a road."""
    s = Scene((196, 212, 228), (222, 226, 228))
    s.gradient(86, SIZE, (120, 120, 122), (92, 92, 96))
    s.box(8, 24, 82, 88, (232, 234, 236))
    s.box(8, 24, 82, 28, (200, 204, 208))
    s.box(8, 46, 82, 58, (40, 84, 160))
    s.polygon([(84, 44), (106, 44), (116, 64), (120, 68), (120, 90), (84, 90)], (196, 40, 34))
    s.polygon([(90, 49), (104, 49), (111, 64), (90, 64)], (58, 74, 92))
    s.box(6, 88, 120, 94, (44, 44, 48))
    s.box(114, 76, 120, 81, (250, 240, 190))
    for x in (24, 44, 102):
        wheel(s, x, 97, 10)
    return s


def automobile():
    """A red saloon on a road."""
    s = Scene((190, 204, 212), (214, 216, 212))
    s.gradient(70, SIZE, (140, 140, 140), (104, 104, 106))
    s.ellipse(64, 98, 58, 6, (60, 60, 62))
    s.polygon([(30, 60), (46, 38), (84, 38), (102, 60)], (176, 22, 26))
    s.polygon([(36, 60), (48, 42), (63, 42), (63, 60)], (52, 62, 76))
    s.polygon([(67, 60), (67, 42), (82, 42), (95, 60)], (52, 62, 76))
    s.polygon([(6, 64), (30, 58), (102, 58), (120, 68), (122, 90), (6, 90)], (200, 26, 30))
    s.box(6, 84, 122, 92, (120, 14, 18))
    s.box(114, 70, 121, 76, (250, 240, 200))
    s.box(6, 68, 11, 75, (250, 120, 90))
    wheel(s, 30, 90, 13)
    wheel(s, 98, 90, 13)
    return s


SCENES = {"ship": ship, "airplane": airplane, "truck": truck, "automobile": automobile}


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent
    for name, scene in SCENES.items():
        scene().save(folder / f"{name}.jpg")
        print(folder / f"{name}.jpg")


if __name__ == "__main__":
    main()
