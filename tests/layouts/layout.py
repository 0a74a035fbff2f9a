"""A layout: how its files are made, and what must come out of them."""

from __future__ import annotations

import gzip
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
            Of a card, see :mod:`answers`.
        left_out: ``"<unit> <reason>"`` → number of units that are left out or fail; None for any files that are left
            out, if no row fails.
        sample_type: Name of the type that is proposed, or a pattern of names; None for any.
        error: Pattern of the message of a refused source; None if it is imported.
        forms: Forms in which the files come, with the same answer.
        options: Arguments of :class:`SourceOptions`.
        kind: As ``--from`` takes it; None detects it.
        texts: ``"<key>.<part>"`` → contents.
        holds: Key → texts that parts of the sample contain.
        note: Pattern of a note on what was decided.
        is_card: These are the files of a public data set, as its card describes them, made small.
    """

    build: Build
    samples: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, int] | None = field(default_factory=dict)
    sample_type: str | None = "CrudeSample"
    error: str | None = None
    forms: tuple[Form, ...] = EVERY_FORM
    options: Mapping[str, Any] = field(default_factory=dict)
    kind: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    holds: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    note: str = ""
    is_card: bool = False


LAYOUTS: dict[str, Layout] = {}
"""Name → layout, of all modules that are imported."""


def layout(**answer: Any) -> Callable[[Build], Build]:
    """Register a function that makes files as a layout with its answer, the attributes of :class:`Layout`."""

    def register(build: Build) -> Build:
        known = LAYOUTS.get(build.__name__)
        assert known is None or known.build.__module__ == build.__module__, f"{build.__name__} is there twice"
        LAYOUTS[build.__name__] = Layout(build=build, **answer)
        return build

    return register


def card(**answer: Any) -> Callable[[Build], Build]:
    """Register a function that makes the files of a public data set; see :func:`layout`.

    The files that are left out, and the sample type, are checked only where the answer states them.
    """
    return layout(**{"left_out": None, "sample_type": None, "is_card": True, **answer})


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
    if extension in _PICTURES:
        return picture(_PICTURES[extension])
    if extension in _HEADS:
        return _HEADS[extension] + name.encode()
    if extension == "npy":
        return _NPY
    return json.dumps({"name": name}).encode() if extension == "json" else f"the file {name}".encode()


_PICTURES = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG", "webp": "WEBP", "tif": "TIFF", "gif": "GIF"}
_HEADS = {
    "wav": b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data\x08\0\0\0" + bytes(8),
    "flac": b"fLaC\0\0\0\x22" + bytes(34),
    "mp3": b"ID3\x04\0\0\0\0\0\0\xff\xfb\x90\x64" + bytes(32),
    "opus": b"OggS\0\x02" + bytes(22) + b"OpusHead",
    "mp4": b"\0\0\0\x18ftypmp42" + bytes(32),
    "gz": gzip.compress(b"a volume", mtime=0),
}
"""Extension → first bytes of such a file."""
_NPY = b"\x93NUMPY\x01\0v\0{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }".ljust(127) + b"\n\x01\x02"


@cache
def picture(kind: str = "JPEG", size: tuple[int, int] = (8, 6), mode: str = "RGB") -> bytes:
    """Return a small picture, of 8 colours or grey values."""
    data = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert(mode).save(data, kind)
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
