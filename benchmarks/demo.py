"""Write a small captioning dataset of photographs, run every command on it and load it (`make demo`).

usage: python benchmarks/demo.py FOLDER

The photographs ship with scikit-image and scikit-learn. Each sample is a crop of one, with a caption.
"""

from __future__ import annotations

import io
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from PIL import Image

SAMPLES = 60
SHARDS = 4
CROP = 224  # pixels, width and height

# package, file, caption
PHOTOGRAPHS = (
    ("skimage", "data/astronaut.png", "an astronaut in an orange suit before a flag"),
    ("skimage", "data/camera.png", "a photographer with a camera on a tripod"),
    ("skimage", "data/chelsea.png", "a tabby cat looking to the side"),
    ("skimage", "data/coffee.png", "a cup of coffee on a wooden table"),
    ("skimage", "data/hubble_deep_field.jpg", "distant galaxies seen by a space telescope"),
    ("skimage", "data/motorcycle_left.png", "a motorcycle parked in a garage"),
    ("skimage", "data/retina.jpg", "the retina of an eye"),
    ("skimage", "data/rocket.jpg", "a rocket on its launch pad"),
    ("sklearn", "datasets/images/china.jpg", "a temple by the water in China"),
    ("sklearn", "datasets/images/flower.jpg", "a pink flower"),
)
TRAINING = Path(__file__).with_name("demo_training.py")
PLACES = {"top": 0.0, "middle": 0.5, "bottom": 1.0}


def main(folder: Path) -> int:
    make_dataset(folder)
    path = str(folder)
    field_map = json.dumps({"image": "jpg", "caption": "json[caption]"})
    answers = ["--split-ratio", "2,1,1", "--sample-type", "CaptioningSample", "--field-map", field_map]
    commands = (
        ["energon", "prepare", path, "--non-interactive", *answers],
        ["energon", "info", path],
        ["energon", "lint", path],
        ["energon", "preview", path, "-n", "2"],
    )
    return 0 if all(run(command) for command in commands) and load(path) else 1


def load(path: str) -> bool:
    """Print the training script and run it; return True if it succeeded."""
    script = os.path.relpath(TRAINING)
    print(f"\n$ cat {script}\n{TRAINING.read_text(encoding='utf-8').rstrip()}")
    return run(["python", script, path])


def make_dataset(folder: Path) -> None:
    """Write `SAMPLES` samples into `SHARDS` shards, with the same bytes every time."""
    from webdataset import ShardWriter

    shutil.rmtree(folder, ignore_errors=True)
    shards = folder / "shards"
    shards.mkdir(parents=True)
    with ShardWriter(f"{shards}/shard_%03d.tar", maxcount=SAMPLES // SHARDS, mtime=0, verbose=0) as writer:
        for index, (image, caption) in enumerate(captioned_crops()):
            content = io.BytesIO()
            image.save(content, "JPEG", quality=90)
            writer.write({"__key__": f"{index:06d}", "jpg": content.getvalue(), "json": {"caption": caption}})
    size_bytes = sum(shard.stat().st_size for shard in shards.iterdir())
    print(f"wrote {SAMPLES} captioned photographs into {SHARDS} shards in {folder} ({size_bytes / 1e6:.1f} MB)")


def captioned_crops() -> Iterator[tuple[Image.Image, str]]:
    """Yield crops of the photographs in turn, each at a random column and one of three heights."""
    random_numbers = random.Random(0)
    photographs = [(open_photograph(package, name), caption) for package, name, caption in PHOTOGRAPHS]
    for index in range(SAMPLES):
        image, caption = photographs[index % len(photographs)]
        place = random_numbers.choice(list(PLACES))
        left = random_numbers.randint(0, image.width - CROP)
        top = round(PLACES[place] * (image.height - CROP))
        yield image.crop((left, top, left + CROP, top + CROP)), f"{caption} ({place} of the picture)"


def open_photograph(package: str, name: str) -> Image.Image:
    """Open a picture of an installed package without importing the package."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed; run: make setup")
    return Image.open(Path(spec.origin).parent / name).convert("RGB")


def run(command: list[str]) -> bool:
    """Print a command line and run it; return True if it succeeded."""
    print(f"\n$ {shlex.join(command)}", flush=True)
    program = Path(sys.executable).with_name(command[0])
    code = subprocess.run([program, *command[1:]], check=False).returncode
    if code:
        print(f"exited with {code}", file=sys.stderr)
    return code == 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
