"""Write photographs with captions, make them a dataset, run the main commands on it and load it (`make demo`).

usage: python benchmarks/demo.py FOLDER

The photographs ship with scikit-image. Each sample is most of one, with a caption. One image is
broken, which `energon lint` finds. `energon import` asks in a terminal of its own, where Enter accepts its proposals.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from demo_photographs import write_photographs
from pseudo_terminal import Emulator, program_of, run_in_terminal

BROKEN = "000017"
COLUMNS = 200  # of the wizard's terminal
TRAINING = Path(__file__).with_name("demo_training.py")
PICTURE_LINE = re.compile(r" *[ ░▒▓█▀▄]*[░▒▓█▀▄][ ░▒▓█▀▄]*")


def main(folder: Path) -> int:
    photographs, path = folder.with_name(f"{folder.name}-photographs"), str(folder)
    write_photographs(photographs)
    break_image(photographs / f"{BROKEN}.jpg")
    shutil.rmtree(folder, ignore_errors=True)
    succeeded = (
        accept_proposals(["energon", "import", str(photographs), path, "--samples-per-shard", "15"])
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


def break_image(image: Path) -> None:
    """Overwrite the start of an image, as a damaged disk may."""
    with image.open("r+b") as file:
        file.write(bytes(512))
    print(f"damaged the image {image.name}")


def accept_proposals(command: list[str]) -> bool:
    """Run a wizard in a terminal, press Enter at each question and print the dialogue, without pictures.

    Returns True if it succeeded.
    """
    answered = 0

    def press_enter(screen: Emulator) -> str:
        nonlocal answered
        questions = sum(line.startswith("? ") for line in screen.all_text())
        new, answered = questions > answered, questions
        return "\r" if new else ""

    print(f"\n$ {shlex.join(command)}", flush=True)
    code, screen = run_in_terminal(
        command,
        columns=COLUMNS,
        lines=40,
        variables={"TERM": "xterm", "NO_COLOR": "1"},
        on_output=press_enter,
    )
    print("\n".join(line for line in screen.all_text() if not PICTURE_LINE.fullmatch(line)), flush=True)
    return code == 0


def run(command: list[str], *, code: int = 0) -> bool:
    """Print a command line and run it; return True if it exits with the code."""
    print(f"\n$ {shlex.join(command)}", flush=True)
    exited = subprocess.run([program_of(command[0]), *command[1:]], check=False).returncode
    if exited:
        print(f"exited with {exited}", flush=True)
    return exited == code


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
