"""Draw the pictures of ``energon demo``: a few motifs, each in many forms, and a caption for each picture."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

_SIZES = ((256, 192), (192, 256), (224, 224))  # pixels, width and height
_FINER = 2  # pictures are drawn larger and shrunk, for smooth edges
_JULIA_STEPS = 50  # more change no pixel that is seen

_COLOURS = {
    "violet": ("#2b1055", "#d76d77", "#ffaf7b"),
    "blue": ("#0f2027", "#2c7da0", "#d9f0ff"),
    "green": ("#0b3d2e", "#56ab2f", "#f4f9c8"),
    "red": ("#3c0d0d", "#c0392b", "#ffd9a0"),
    "gold": ("#3e2723", "#e0a030", "#fff3c4"),
    "teal": ("#012a36", "#1b998b", "#f0ead2"),
}
"""For each name the colours of a picture: dark, medium and light."""

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class _Canvas:
    """The pixels of a picture: ``x`` grows to the right and ``y`` down, and the shorter side is from -1 to 1."""

    def __init__(self, size: tuple[int, int], colours: tuple[str, ...]) -> None:
        width, height = (side * _FINER for side in size)
        scale = 2 / min(width, height)
        self.y, self.x = (np.indices((height, width)) - np.array([height, width])[:, None, None] / 2) * scale
        self.colours = np.array([[int(text[at : at + 2], 16) for at in (1, 3, 5)] for text in colours], float)
        self.pixels = np.zeros((height, width, 3))

    def shade(self, values: Any) -> Any:
        """Return the colours between dark, at 0, over medium to light, at 1."""
        return np.stack([np.interp(values, (0, 0.5, 1), self.colours[:, channel]) for channel in range(3)], axis=-1)

    def paint(self, where: Any, colours: Any) -> None:
        self.pixels = np.where(where[..., None], colours, self.pixels)


def draw_pictures(count: int) -> Iterator[tuple[Image.Image, str]]:
    """Yield pictures with their captions, the same at each call."""
    motifs = (_mountains, _night, _julia, _flower, _rings, _tiles)
    for index in range(count):
        numbers, motif = random.Random(index), motifs[index % len(motifs)]
        name = list(_COLOURS)[(index + index // len(motifs)) % len(_COLOURS)]
        size = _SIZES[numbers.randrange(len(_SIZES))]
        canvas = _Canvas(size, _COLOURS[name])
        caption = motif(canvas, numbers, name)
        yield Image.fromarray(canvas.pixels.clip(0, 255).astype(np.uint8)).resize(size), caption


def _ridge(canvas: _Canvas, numbers: random.Random, height: float, roughness: float) -> Any:
    """Return where the picture is below a line of hills."""
    waves = sum(
        numbers.uniform(0.4, 1) / pitch * np.sin(pitch * numbers.uniform(1.5, 2.5) * canvas.x + numbers.uniform(0, 7))
        for pitch in (1, 2, 4, 7, 13)
    )
    return canvas.y > height - roughness * waves


def _mountains(canvas: _Canvas, numbers: random.Random, name: str) -> str:
    canvas.pixels = canvas.shade(0.6 + 0.4 * canvas.y)
    x, y, ranges = numbers.uniform(-0.6, 0.6), numbers.uniform(-0.5, -0.1), numbers.randint(2, 4)
    distance = np.hypot(canvas.x - x, canvas.y - y)
    canvas.pixels += 60 * np.exp(-3 * distance)[..., None]
    canvas.paint(distance < numbers.uniform(0.15, 0.3), 255 - 0.3 * (255 - canvas.colours[2]))
    for step in range(ranges):
        nearness = (step + 1) / ranges
        canvas.paint(_ridge(canvas, numbers, 0.1 + 0.65 * nearness, 0.22), canvas.shade(0.5 * (1 - nearness)))
    return f"the sun above {_NUMBERS[ranges]} ranges of mountains, in {name}"


def _night(canvas: _Canvas, numbers: random.Random, name: str) -> str:
    canvas.pixels = canvas.shade(0.25 + 0.2 * canvas.y)
    height, width = canvas.x.shape
    for _ in range(90):
        row, column, side = numbers.randrange(height), numbers.randrange(width), numbers.randint(1, 4)
        canvas.pixels[row : row + side, column : column + side] = canvas.colours[2]
    x, y, phase = numbers.uniform(-0.5, 0.5), numbers.uniform(-0.6, -0.3), numbers.choice((-0.16, 0.16, 2))
    moon = np.hypot(canvas.x - x, canvas.y - y) < 0.26
    canvas.paint(moon & (np.hypot(canvas.x - x - phase, canvas.y - y + 0.05) > 0.24), canvas.colours[2])
    canvas.paint(_ridge(canvas, numbers, 0.65, 0.15), canvas.colours[0] * 0.4)
    return f"a {'full' if phase == 2 else 'crescent'} moon and stars above {name} hills"


def _julia(canvas: _Canvas, numbers: random.Random, name: str) -> str:
    constant = numbers.choice((-0.8 + 0.156j, -0.4 + 0.6j, 0.285 + 0.01j, -0.7269 + 0.1889j, -0.835 - 0.2321j))
    z = (1.3 * (canvas.x + 1j * canvas.y) * np.exp(1j * numbers.uniform(0, 3))).astype(np.complex64)
    steps = np.zeros(z.shape)
    for _ in range(_JULIA_STEPS):
        inside = np.abs(z) < 4
        steps += inside
        z = np.where(inside, z * z + np.complex64(constant), z)
    canvas.pixels = canvas.shade((steps / _JULIA_STEPS) ** 0.6)
    return f"a {name} fractal, the Julia set of {constant:.2f}"


def _flower(canvas: _Canvas, numbers: random.Random, name: str) -> str:
    canvas.pixels = canvas.shade(0.12 + 0.1 * np.sin(9 * canvas.x) * np.sin(9 * canvas.y))
    petals, turn = numbers.randint(5, 9), numbers.uniform(0, 6)
    radius, angle = np.hypot(canvas.x, canvas.y), np.arctan2(canvas.y, canvas.x)
    for size in (0.9, 0.7, 0.5):
        edge = size * (0.55 + 0.45 * np.abs(np.cos(petals / 2 * angle + turn + size)) ** 0.7)
        canvas.paint(radius < edge, canvas.shade(1.25 - size + 0.3 * (radius / edge - 1)))
    canvas.paint(radius < 0.16, canvas.shade(0.3 + 0.2 * np.sin(60 * canvas.x) * np.sin(60 * canvas.y)))
    return f"a {name} flower with {_NUMBERS[petals]} petals"


def _rings(canvas: _Canvas, numbers: random.Random, name: str) -> str:
    drops, waves = numbers.randint(1, 4), np.zeros(canvas.x.shape)
    for _ in range(drops):
        distance = np.hypot(canvas.x - numbers.uniform(-0.9, 0.9), 1.6 * (canvas.y - numbers.uniform(-0.7, 0.7)))
        waves += np.sin(numbers.uniform(22, 34) * distance) * np.exp(-1.2 * distance)
    canvas.pixels = canvas.shade(0.45 + 0.1 * canvas.y + 0.35 * waves)
    return f"the rings of {_NUMBERS[drops]} {'drop' if drops == 1 else 'drops'} on {name} water"


def _tiles(canvas: _Canvas, numbers: random.Random, name: str) -> str:
    count, turns = numbers.randint(3, 6), np.random.default_rng(numbers.randrange(1000))
    x, y = (canvas.x + 2) * count / 2, (canvas.y + 2) * count / 2
    flipped = turns.integers(0, 2, (4 * count, 4 * count))[y.astype(int), x.astype(int)] == 1
    x, y = np.where(flipped, 1 - x % 1, x % 1), y % 1
    distance = np.minimum(np.hypot(x, y), np.hypot(1 - x, 1 - y))
    canvas.pixels = canvas.shade(np.full(x.shape, 0.5))
    canvas.paint(np.abs(distance - 0.5) < 0.2, canvas.colours[0])
    canvas.paint(np.abs(distance - 0.5) < 0.13, canvas.colours[2])
    return f"{name} tiles with bands that wind, {_NUMBERS[count]} in a row"
