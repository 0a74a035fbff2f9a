"""Disturb the files of a layout a little, as people do, and change the right answer accordingly."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from loader.parts.kinds import MEDIA_KINDS, kind_of_name
from tests.layouts.cards_speech import tsv
from tests.layouts.layout import Layout, write

_OF_MEDIA = re.compile(
    r"images?|clips|wavs?|wav48|audio|photos|pictures|videos|frames|tiles|documents|JPEGImages|utts|data"
)
"""Folders whose names say only what their files are: another name is as right."""
_OTHER_NAME = "material"


@dataclass(frozen=True, slots=True)
class Disturbed:
    """A disturbed layout.

    Attributes:
        layout: With the answer as it now is.
        lacking: So many samples may be missing or miss parts.
    """

    layout: Layout
    lacking: int = 0


Disturb = Callable[[Path, Layout], Disturbed | None]
"""Changes the files of a layout, and returns the answer; None if the layout has nothing of the kind."""


def a_stray_text(folder: Path, layout: Layout) -> Disturbed | None:
    """Add a text that names nothing, and is left out; it would be a sample among texts."""
    if any(re.fullmatch(r"(\w+: )?txt", option) for parts in layout.samples.values() for option in parts.split(" | ")):
        return None
    write(
        folder,
        {"notes.txt": "Downloaded on a Monday, with thanks to the authors.\nThe second part is still to come.\n"},
    )
    return Disturbed(layout)


def one_missing_file(folder: Path, layout: Layout) -> Disturbed | None:
    """Remove a picture, sound or video: at most three samples have rows about it."""
    media = _media(folder)
    if len(media) < 5:
        return None
    media[len(media) // 2].unlink()
    return Disturbed(layout, lacking=4)


def another_folder_name(folder: Path, layout: Layout) -> Disturbed | None:
    """Rename the folder of the media, if its name says no more than that."""
    names = (path.relative_to(folder).parts for path in _media(folder))
    paths = Counter(
        parts[: at + 1] for parts in names for at, name in enumerate(parts[:-1]) if _OF_MEDIA.fullmatch(name)
    )
    if not paths:
        return None
    ((before, _),) = paths.most_common(1)
    after = (*before[:-1], _OTHER_NAME)
    os.rename(folder.joinpath(*before), folder.joinpath(*after))
    return Disturbed(_renamed(layout, "/".join(before), "/".join(after)))


def one_table_more(folder: Path, layout: Layout) -> Disturbed | None:
    """Add a table that names nothing, and is left out, if it does not leave open what the data are."""
    rows = [[f"thing {n}", f"{9.5 + n}", f"sold in shop {n}"] for n in range(7)]
    write(folder, {"prices.csv": tsv("product price remark", rows, ",")})
    return Disturbed(layout)


DISTURBANCES: tuple[Disturb, ...] = (a_stray_text, one_missing_file, another_folder_name, one_table_more)


def _media(folder: Path) -> list[Path]:
    """Return the pictures, sounds and videos of the most frequent extension, sorted."""
    paths = [path for path in sorted(folder.rglob("*.*")) if kind_of_name(path.suffix[1:]) in MEDIA_KINDS]
    counts = Counter(path.suffix for path in paths)
    return [path for path in paths if path.suffix == counts.most_common(1)[0][0]]


def _renamed(layout: Layout, before: str, after: str) -> Layout:
    """Return a layout whose keys have another folder, and whose parts may be named after it."""

    def key(name: str) -> str:
        return " | ".join(
            re.sub(rf"^(\? )?{re.escape(before)}/", rf"\g<1>{after}/", option) for option in name.split(" | ")
        )

    def parts(answer: str) -> str:
        options = [option for part in answer.split(" | ") for option in (part, *_named_after_folder(part))]
        return " | ".join(options)

    samples = {key(name): parts(answer) for name, answer in layout.samples.items()}
    texts = {key(name): text for name, text in layout.texts.items()}
    return replace(layout, samples=samples, texts=texts, holds={key(name): text for name, text in layout.holds.items()})


def _named_after_folder(parts: str) -> list[str]:
    """Return the parts with each plain medium named after the folder, which is no main one any more."""
    names = parts.split()
    return [
        " ".join([*names[:at], f"{_OTHER_NAME}.{name}", *names[at + 1 :]])
        for at, name in enumerate(names)
        if "." not in name and kind_of_name(name) in MEDIA_KINDS
    ]
