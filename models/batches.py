"""Training images on the device, dealt in random batches, each image changed at random as the recipe says."""

import math

import numpy as np
import torch
from torch.nn import functional

# What is mirrored of Fashion-MNIST: shoes all point the same way there.
SHOES = ("Sandal", "Sneaker", "Ankle boot")


def normaliser(mean, std, device):
    """uint8 (or float) N x C x H x W to float32, as the server will do it: scaled to 0..1, then
    (x - mean) / std per channel."""
    mean = torch.tensor(mean, device=device).reshape(1, -1, 1, 1)
    std = torch.tensor(std, device=device).reshape(1, -1, 1, 1)
    return lambda pixels: (pixels.float() * (1.0 / 255.0) - mean) / std


class Batches:
    """Iterating gives (float32 images, normalised; float32 N x K, the share of each class in an image)."""

    def __init__(self, images, recipe, prepare, device, seed):
        shift = recipe.shift
        padded = np.pad(images.pixels, ((0, 0), (0, 0), (shift, shift), (shift, shift)), mode="reflect")
        self.pixels = torch.from_numpy(padded).to(device)
        self.labels = torch.from_numpy(images.labels).to(device)
        self.size, self.classes = images.pixels.shape[2], len(images.classes)
        mirrored = [
            recipe.mirror == "all" or (recipe.mirror == "clothes" and c not in SHOES) for c in images.classes
        ]
        self.mirrored = torch.tensor(mirrored, device=device)
        self.recipe, self.prepare, self.device = recipe, prepare, device
        self.batch = min(recipe.batch, len(images))
        self.random = torch.Generator(device).manual_seed(seed)
        self.coins = np.random.default_rng(seed)

    def __len__(self):
        return len(self.labels) // self.batch

    def integers(self, high, count):
        return torch.randint(high, (count, 1), generator=self.random, device=self.device)

    def uniform(self, shape, most):
        """From -most to most."""
        return (torch.rand(shape, generator=self.random, device=self.device) * 2.0 - 1.0) * most

    def moved(self, chosen):
        """The chosen images, moved by whole pixels and mirrored: a single gather from the padded images of
        shifted rows and, for a mirrored image, reversed columns."""
        n = len(chosen)
        steps = torch.arange(self.size, device=self.device)
        channels = torch.arange(self.pixels.shape[1], device=self.device).reshape(1, -1, 1, 1)
        turned = (self.integers(2, n) == 1) & self.mirrored[self.labels[chosen]].reshape(n, 1)
        rows = steps + self.integers(2 * self.recipe.shift + 1, n)
        columns = torch.where(turned, self.size - 1 - steps, steps) + self.integers(
            2 * self.recipe.shift + 1, n
        )
        return self.pixels[
            chosen.reshape(n, 1, 1, 1), channels, rows.reshape(n, 1, -1, 1), columns.reshape(n, 1, 1, -1)
        ]

    def bent(self, x):
        """Turned, zoomed and sheared about the centre; what comes in from outside is the edge mirrored."""
        recipe, n = self.recipe, len(x)
        if recipe.turn == recipe.zoom == recipe.slant == 0.0:
            return x
        angle = self.uniform(n, math.radians(recipe.turn))
        slant = self.uniform(n, recipe.slant)
        wide, high = torch.exp(self.uniform((2, n), recipe.zoom))
        cos, sin = torch.cos(angle), torch.sin(angle)
        zero = torch.zeros_like(angle)
        first = torch.stack([wide * cos, wide * (slant * cos - sin), zero], 1)
        second = torch.stack([high * sin, high * (slant * sin + cos), zero], 1)
        grid = functional.affine_grid(torch.stack([first, second], 1), x.shape, align_corners=False)
        return functional.grid_sample(x, grid, "bilinear", "reflection", align_corners=False)

    def lit(self, x):
        """Other contrast and brightness, an image at a time; x is normalised."""
        if self.recipe.light == 0.0:
            return x
        shape = (len(x), 1, 1, 1)
        return x * (1.0 + self.uniform(shape, self.recipe.light)) + self.uniform(shape, self.recipe.light)

    def erased(self, x):
        """A square somewhere becomes 0, which is the mean colour."""
        if self.recipe.erase == 0.0:
            return x
        shape = (len(x), 1, 1, 1)
        half = (
            self.size * self.recipe.erase * torch.rand(shape, generator=self.random, device=self.device) / 2
        )
        places = torch.arange(self.size, device=self.device)
        centre_y, centre_x = (self.uniform(shape, self.size / 2) + self.size / 2 for _ in range(2))
        inside_y = (places.reshape(1, 1, -1, 1) - centre_y).abs() < half
        inside_x = (places.reshape(1, 1, 1, -1) - centre_x).abs() < half
        return x.masked_fill(inside_y & inside_x, 0.0)

    def blended(self, x, shares):
        """Sometimes each image is blended with another of its batch (mixup, Zhang et al. 2018), or has a
        rectangle of it (cutmix, Yun et al. 2019); the shares of the classes follow."""
        coin = self.coins.random()
        if coin >= self.recipe.mix + self.recipe.paste:
            return x, shares
        other = torch.randperm(len(x), generator=self.random, device=self.device)
        keep = self.coins.random()
        if coin < self.recipe.mix:
            keep = 0.5 + 0.5 * keep
            x = keep * x + (1.0 - keep) * x[other]
        else:
            half = 0.5 * self.size * math.sqrt(1.0 - keep)
            y, z = self.coins.random(2) * self.size
            y0, y1, z0, z1 = (
                round(min(max(v, 0), self.size)) for v in (y - half, y + half, z - half, z + half)
            )
            x[:, :, y0:y1, z0:z1] = x[other, :, y0:y1, z0:z1]
            keep = 1.0 - (y1 - y0) * (z1 - z0) / self.size**2
        return x, keep * shares + (1.0 - keep) * shares[other]

    def __iter__(self):
        order = torch.randperm(len(self.labels), generator=self.random, device=self.device)
        for i in range(len(self)):
            chosen = order[i * self.batch : (i + 1) * self.batch]
            x = self.erased(self.lit(self.bent(self.prepare(self.moved(chosen)))))
            shares = functional.one_hot(self.labels[chosen], self.classes).float()
            yield self.blended(x, shares)
