#!/usr/bin/env python3
"""Draws the sample images for the Fashion-MNIST classes: grey silhouettes on black.

    python3 models/samples/draw_fashion.py [FOLDER]

Like Fashion-MNIST's pictures they fill the frame from top to bottom (shoes from side to side), and shoes
point to the left. The file's name is the class that both fashion networks should give it, in small letters,
with - for what is no letter. Only Pillow is needed; the same version of Pillow draws the same bytes (those
here are of Pillow 9.4, Debian 12's)."""

import pathlib
import sys

from PIL import Image

from draw import OVER, SIZE, Scene

UNITS = 28  # Fashion-MNIST's pixels: shapes are given in them


class Silhouette(Scene):
    """A black canvas of 28 x 28 units; brightness is 0 to 255."""

    def __init__(self):
        super().__init__((0, 0, 0), (0, 0, 0))

    def shape(self, points, grey):
        self.polygon([(x * SIZE / UNITS, y * SIZE / UNITS) for x, y in points], (grey, grey, grey))

    def both(self, points, grey):
        """The left half of something symmetric, from its top to its bottom, and the right half."""
        self.shape(points + [(UNITS - x, y) for x, y in reversed(points)], grey)

    def stroke(self, points, width, grey):
        scaled = [(x * SIZE / UNITS * OVER, y * SIZE / UNITS * OVER) for x, y in points]
        self.draw.line(scaled, (grey, grey, grey), round(width * SIZE / UNITS * OVER), joint="curve")

    def disc(self, x, y, rx, ry, grey):
        u = SIZE / UNITS
        self.ellipse(x * u, y * u, rx * u, ry * u, (grey, grey, grey))

    def save(self, path):
        self.image.resize((SIZE, SIZE), Image.Resampling.LANCZOS).convert("L").save(path)


def t_shirt():
    """Short sleeves that stand away, a round neck."""
    s = Silhouette()
    s.both([(10, 1), (7, 2), (2, 6), (4.5, 10.5), (7.5, 9), (7.8, 27)], 150)
    s.disc(14, 1, 3.4, 2.2, 0)
    s.stroke([(10.4, 1.6), (12, 3.4), (14, 4), (16, 3.4), (17.6, 1.6)], 0.7, 190)
    s.both([(11, 9), (11, 13)], 215)
    return s


def trouser():
    """Two legs."""
    s = Silhouette()
    s.both([(9, 0.5), (8, 10), (8.2, 27.5), (12.4, 27.5), (13.7, 9)], 205)
    s.shape([(13.6, 0.5), (14.4, 0.5), (14.4, 10), (13.6, 10)], 205)
    s.shape([(9, 0.5), (19, 0.5), (19.1, 2), (8.9, 2)], 160)
    return s


def pullover():
    """Long sleeves along the body, no opening, a ribbed hem."""
    s = Silhouette()
    s.both([(10.5, 1.5), (7, 3), (4, 6), (1.5, 26), (5.2, 26.5), (7.4, 12), (7.4, 27)], 165)
    s.disc(14, 1.6, 3.2, 1.4, 60)
    s.both([(7.4, 25), (7.4, 27)], 130)
    for y in (9, 12, 15):
        s.both([(7.6, y), (7.6, y + 1.2)], 190)
    return s


def dress():
    """Narrow at the waist, without sleeves, wide below."""
    s = Silhouette()
    s.both([(11.5, 0.5), (10.6, 0.5), (10.8, 4), (10, 6), (11.4, 11), (10.6, 17), (8.6, 27.5)], 185)
    s.shape([(11.6, 0), (16.4, 0), (14, 4.5)], 0)
    s.both([(11.3, 10.5), (11.3, 11.8)], 110)
    return s


def coat():
    """Long sleeves, a collar, a dark seam with buttons from top to bottom."""
    s = Silhouette()
    s.both([(10.5, 0.8), (7, 2.6), (4.4, 6), (3, 25), (6.4, 25.6), (7.6, 12), (7.2, 27.5)], 175)
    s.both([(11, 0.5), (9.4, 2.2), (12.4, 6.5), (14, 4)], 215)
    s.stroke([(14, 4), (14, 27.5)], 0.9, 60)
    s.stroke([(7.5, 9), (6.5, 25)], 0.6, 110)
    s.stroke([(20.5, 9), (21.5, 25)], 0.6, 110)
    for y in (8, 12, 16, 20):
        s.disc(15.4, y, 0.5, 0.5, 90)
    return s


def sandal():
    """A thin sole and straps, a heel on the right."""
    s = Silhouette()
    sole = [(0.5, 19.5), (9, 18.5), (17, 14.5), (26, 11), (27, 12.5), (26.5, 20)]
    s.shape(sole + [(24.3, 20), (24.3, 14.5), (17, 18), (9, 20.5), (0.5, 20.8)], 170)
    s.stroke([(3, 19.5), (7, 14.5), (11.5, 18)], 1.3, 210)
    s.stroke([(9.5, 18.5), (14.5, 11.5), (18, 14.5)], 1.3, 210)
    s.stroke([(14.5, 11.5), (20, 8), (25.6, 8), (26, 11.5)], 1.1, 210)
    return s


def shirt():
    """Sleeves to the elbow, an open neck, a seam in front, checked cloth, a rounded hem."""
    s = Silhouette()
    s.both(
        [(11, 0.8), (8, 1.8), (3.2, 5.8), (1.8, 17), (6.4, 17.8), (7.2, 9.5), (6.6, 26.4), (14, 27.4)], 170
    )
    for y in range(4, 27, 3):
        left = 6.9 if y > 9 else 5.6
        s.both([(left, y), (left, y + 0.9)], 120)
    for x in (8.6, 11.2):
        s.stroke([(x, 3), (x, 25.9)], 0.7, 120)
        s.stroke([(UNITS - x, 3), (UNITS - x, 25.9)], 0.7, 120)
    s.shape([(11.5, 0.4), (16.5, 0.4), (14, 6)], 0)
    s.stroke([(14, 6), (14, 26.9)], 0.8, 110)
    return s


def sneaker():
    """Low, with a light sole and stripes."""
    s = Silhouette()
    s.shape(
        [
            (0.5, 17.5),
            (3, 15.6),
            (9, 13.6),
            (15, 10.4),
            (18, 11.2),
            (22, 11.2),
            (26.5, 10),
            (27.5, 13),
            (27.5, 19),
        ],
        150,
    )
    s.shape([(0.3, 17.6), (27.7, 17), (27.7, 19.4), (0.5, 19.4)], 230)
    for x in (12.5, 15, 17.5):
        s.stroke([(x, 12.6), (x + 2.2, 16.8)], 0.8, 225)
    return s


def bag():
    """A handbag with two handles."""
    s = Silhouette()
    s.stroke([(8, 12), (9, 5), (11.5, 2.5), (16.5, 2.5), (19, 5), (20, 12)], 1.3, 170)
    s.shape([(3.5, 11), (24.5, 11), (26.5, 26), (1.5, 26)], 185)
    s.shape([(3.5, 11), (24.5, 11), (24.9, 13.4), (3.1, 13.4)], 140)
    s.disc(14, 14, 1.2, 1.2, 235)
    return s


def ankle_boot():
    """A shaft above the ankle and a heel."""
    s = Silhouette()
    s.shape(
        [(1, 22), (3, 19.5), (9, 17), (14, 13), (15.5, 4.5), (26, 3.5), (26.6, 14), (27, 22.5), (1, 23.5)],
        190,
    )
    s.shape([(1, 22.5), (14, 22.5), (20, 22), (27, 22), (27, 25.5), (21.5, 25.5), (20, 23.8), (1, 24.4)], 120)
    s.stroke([(22.5, 4), (22.3, 12)], 1.4, 110)
    return s


DRAWINGS = {
    "t-shirt-top": t_shirt,
    "trouser": trouser,
    "pullover": pullover,
    "dress": dress,
    "coat": coat,
    "sandal": sandal,
    "shirt": shirt,
    "sneaker": sneaker,
    "bag": bag,
    "ankle-boot": ankle_boot,
}


def main():
    folder = (
        pathlib.Path(sys.argv[1])
        if len(sys.argv) > 1
        else pathlib.Path(__file__).resolve().parent / "fashion"
    )
    folder.mkdir(exist_ok=True)
    for name, drawing in DRAWINGS.items():
        drawing().save(folder / f"{name}.png")
        print(folder / f"{name}.png")


if __name__ == "__main__":
    main()
