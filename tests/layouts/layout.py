"""A layout: how its files are made, and what must come out of them."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from PIL import Image

Form = Literal["folder", "zip", "tar"]
Build = Callable[[Path], str | None]
EVERY_FORM: tuple[Form, ...] = ("folder", "zip", "tar")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A layout.

    Attributes:
        build: Makes the files below a folder, and returns the source inside of it; None for the folder itself.
        samples: Key → names of the parts, sorted and joined by spaces, after the split part if there are several.
        left_out: ``"<unit> <reason>"`` → number of units that are left out or fail.
        sample_type: Name of the type that is proposed.
        error: Pattern of the message of a refused source; None if it is imported.
        forms: Forms in which the files come, with the same answer.
        options: Arguments of :class:`SourceOptions`.
        kind: As ``--from`` takes it; None detects it.
        texts: ``"<key>.<part>"`` → contents.
        note: Pattern of a note on what was decided.
    """

    build: Build
    samples: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    sample_type: str = "CrudeSample"
    error: str | None = None
    forms: tuple[Form, ...] = EVERY_FORM
    options: Mapping[str, Any] = field(default_factory=dict)
    kind: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


LAYOUTS: dict[str, Layout] = {}
"""Name → layout, of all modules that are imported."""


def layout(**answer: Any) -> Callable[[Build], Build]:
    """Register a function that makes files as a layout with its answer, the attributes of :class:`Layout`."""

    def register(build: Build) -> Build:
        LAYOUTS[build.__name__] = Layout(build=build, **answer)
        return build

    return register


def write(folder: Path, files: Mapping[str, bytes | str] | Iterable[str]) -> None:
    """Write files: name → contents; those without contents by :func:`contents_of`."""
    items = files.items() if isinstance(files, Mapping) else ((name, contents_of(name)) for name in files)
    for name, contents in items:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents.encode() if isinstance(contents, str) else contents)


def contents_of(name: str) -> bytes:
    """Return valid contents for a file name."""
    extension = name.rpartition(".")[2].lower()
    if extension in ("jpg", "jpeg", "png", "webp"):
        return picture("JPEG" if extension in ("jpg", "jpeg") else extension.upper())
    return json.dumps({"name": name}).encode() if extension == "json" else f"the file {name}".encode()


@cache
def picture(kind: str = "JPEG", size: tuple[int, int] = (8, 6)) -> bytes:
    """Return a small picture."""
    data = io.BytesIO()
    Image.new("RGB", size, (200, 30, 7)).save(data, kind)
    return data.getvalue()


def table(columns: Mapping[str, list[Any]]) -> bytes:
    """Return a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    data = io.BytesIO()
    parquet.write_table(pa.table(dict(columns)), data)
    return data.getvalue()


def tar_of(files: Mapping[str, bytes]) -> bytes:
    """Return a tar file."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, contents in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(contents)
            tar.addfile(member, io.BytesIO(contents))
    return data.getvalue()


def packed(folder: Path, form: Form) -> Path:
    """Return the files of a folder in another form."""
    if form == "folder":
        return folder
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    target = folder.with_suffix(f".{form}")
    if form == "tar":
        target.write_bytes(tar_of({str(path.relative_to(folder)): path.read_bytes() for path in paths}))
    else:
        with zipfile.ZipFile(target, "w") as file:
            for path in paths:
                file.write(path, path.relative_to(folder))
    return target
