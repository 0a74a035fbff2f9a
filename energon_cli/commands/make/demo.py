"""``energon demo``: draw pictures with captions, and run the main commands on them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from loader.errors import StorageError, escape_controls

from ...command import energon_command
from ...settings import name_program, program_name

_PICTURES = 36  # each motif in each colour
_BROKEN = 17  # number of the picture that is cut off
_KEPT_BYTES = 2000  # of it: the header, and some rows

_STEPS = """
# Pictures and captions become tar shards with an index, split for training, validation and test:
$ energon import {pictures} {data} --yes

# What is in the dataset?
$ energon info {data}

# What do the samples look like?
$ energon preview {data} -n 2

# Is each of them readable? --fix takes the others out of training. The command exits with 1, since there was an error.
$ energon lint {data} --fix

# Are the others readable?
$ energon lint {data}

# How large are they?
$ energon stats {data}

# Where is a sample?
$ energon get {data} 000002

# All pictures in a web browser (with the extra browse): energon browse {data}
# Training, in Python:
"""

_TRAINING = """
from energon_toolkit import get_savable_loader, get_train_dataset

loader = get_savable_loader(get_train_dataset({data!r}, batch_size=4))
for step, batch in zip(range(3), loader):
    print(step, tuple(batch.image.shape), batch.caption[0])
state = loader.save_state_rank()  # goes into your checkpoint: restore_state_rank(state) continues exactly here\
"""


@energon_command("demo", takes_path=False)
@click.argument("folder", metavar="[FOLDER]", default="energon-demo")
@click.pass_context
def demo(context: click.Context, folder: str) -> None:
    """Draw pictures with captions in FOLDER, break one of them, and run the main commands on them.

    Each command line is printed before it runs, as you would type it. The last lines train from the dataset. FOLDER has
    to be new or empty; without it, the pictures go to energon-demo. Nothing is downloaded.

    Examples:
        See what the commands do:
            energon demo
        Keep the pictures and the dataset elsewhere:
            energon demo /tmp/demo
    """
    if "://" in folder:
        raise click.BadParameter(f"expected a folder of this machine, found {folder}", param_hint="FOLDER")
    pictures, data = os.path.join(folder, "pictures"), os.path.join(folder, "dataset")
    _draw(Path(folder), Path(pictures))
    program = context.find_root().command
    for step in _STEPS.splitlines():  # names of folders may have line breaks
        line = step.format(pictures=shlex.quote(pictures), data=shlex.quote(data))
        _print(line)
        if not line.startswith("$ "):
            continue
        # Run the command as a process of its own would, but with the options of this one, such as --color.
        words, code = shlex.split(line)[2:], 0
        try:
            with program.make_context(program_name(), [*words], obj=tuple(words)) as inner:
                program.invoke(inner)
        except click.exceptions.Exit as done:
            code = done.exit_code
        if code != ("--fix" in words):
            context.exit(code or 1)
    _print(_TRAINING.format(data=data))


def _print(text: str) -> None:
    click.echo(escape_controls(name_program(text), keep="\n"))  # in lines as they are, to copy them


def _draw(folder: Path, pictures: Path) -> None:
    from .demo_pictures import draw_pictures

    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise StorageError(
                "expected a new or empty folder", path=str(folder), hint="remove it, or name another one"
            )
        pictures.mkdir(parents=True)
        for index, (picture, caption) in enumerate(draw_pictures(_PICTURES)):
            file = pictures / f"{index:06d}.jpg"
            picture.save(file, "JPEG", quality=90)
            file.with_suffix(".txt").write_text(caption, encoding="utf-8")
            if index == _BROKEN:
                os.truncate(file, _KEPT_BYTES)
    except OSError as error:
        raise StorageError(f"cannot write the pictures: {error.strerror}", path=str(folder)) from error
    _print(f"drew {_PICTURES} pictures with captions in {pictures}; {_BROKEN:06d}.jpg is cut off")
