"""Write a small captioning dataset of photographs, run every command on it and load it (`make demo`).

usage: python benchmarks/demo.py FOLDER

The photographs ship with scikit-image and scikit-learn. Each sample is most of one, with a caption. One image is
broken, which `energon lint` finds. `energon prepare` asks in a terminal of its own, where Enter accepts its proposals.
"""

from __future__ import annotations

import io
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from PIL import Image

SAMPLES = 60
SHARDS = 4
SIZE = 224  # pixels, width and height
SHOWN = 0.85  # side of the square that a sample shows, of the photograph's shorter side
BROKEN = "000017"
COLUMNS = 160  # of the wizard's terminal

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
KITTY_QUERY = re.compile("\x1b_.*?\x1b\\\\", flags=re.DOTALL)  # pyte does not know it
PICTURE_LINE = re.compile(r" *[ ░▒▓█▀▄]*[░▒▓█▀▄][ ░▒▓█▀▄]*")
CURSOR_QUERY = "\x1b[6n"
PLACES = {"top": 0.0, "middle": 0.5, "bottom": 1.0}


def main(folder: Path) -> int:
    make_dataset(folder)
    break_image(folder, BROKEN)
    path = str(folder)
    succeeded = (
        accept_proposals(["energon", "prepare", path])
        and run(["energon", "info", path])
        and run(["energon", "preview", path, "-n", "2"])
        and run(["energon", "lint", path, "--fix"], code=1)
        and run(["energon", "lint", path])
        and load(path)
    )
    return 0 if succeeded else 1


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
    """Yield squares of the photographs in turn, each at a random column and one of three heights."""
    random_numbers = random.Random(0)
    photographs = [(open_photograph(package, name), caption) for package, name, caption in PHOTOGRAPHS]
    for index in range(SAMPLES):
        image, caption = photographs[index % len(photographs)]
        side = round(SHOWN * min(image.size))
        place = random_numbers.choice(list(PLACES))
        left = random_numbers.randint(0, image.width - side)
        top = round(PLACES[place] * (image.height - side))
        square = image.resize((SIZE, SIZE), box=(left, top, left + side, top + side))
        yield square, f"{caption} ({place} of the picture)"


def break_image(folder: Path, key: str) -> None:
    """Overwrite the start of an image in its shard, as a damaged disk may."""
    for shard in sorted((folder / "shards").glob("*.tar")):
        with tarfile.open(shard) as tar:
            found = [member for member in tar if member.name == f"{key}.jpg"]
        for member in found:
            with shard.open("r+b") as file:
                file.seek(member.offset_data)
                file.write(bytes(512))
            print(f"damaged the image {member.name} in {shard.name}")


def open_photograph(package: str, name: str) -> Image.Image:
    """Open a picture of an installed package without importing the package."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed; run: make setup")
    return Image.open(Path(spec.origin).parent / name).convert("RGB")


def accept_proposals(command: list[str]) -> bool:
    """Run a wizard in a terminal, press Enter at each question and print the dialogue, without pictures.

    Returns True if it succeeded.
    """
    import pexpect
    import pyte

    print(f"\n$ {shlex.join(command)}", flush=True)
    screen = pyte.Screen(COLUMNS, 200)  # higher than the terminal of the wizard: nothing scrolls away
    stream = pyte.Stream(screen)
    variables = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    child = pexpect.spawn(
        program_of(command[0]),
        command[1:],
        dimensions=(40, COLUMNS),
        env=variables | {"TERM": "xterm", "NO_COLOR": "1"},
        encoding="utf-8",
    )
    answered = 0
    while True:
        try:
            shown = child.read_nonblocking(65536, timeout=60)
        except pexpect.EOF:
            break
        stream.feed(KITTY_QUERY.sub("", shown))
        if CURSOR_QUERY in shown:
            child.send(f"\x1b[1;{screen.cursor.x + 1}R")
        questions = sum(line.startswith("? ") for line in screen.display)
        if questions > answered:
            answered = questions
            child.send("\r")
    child.close()
    lines = [line.rstrip() for line in screen.display if not PICTURE_LINE.fullmatch(line)]
    print("\n".join(lines).rstrip(), flush=True)
    return child.exitstatus == 0


def run(command: list[str], *, code: int = 0) -> bool:
    """Print a command line and run it; return True if it exits with the code."""
    print(f"\n$ {shlex.join(command)}", flush=True)
    exited = subprocess.run([program_of(command[0]), *command[1:]], check=False).returncode
    if exited:
        print(f"exited with {exited}", flush=True)
    return exited == code


def program_of(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
