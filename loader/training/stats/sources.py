"""The sources of a chain, numbered through all of its readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...dataset.dataset import Dataset
from ...pipeline.reading.read import ReadDataset


def readers_of(chain: Any) -> Iterator[ReadDataset]:
    """Yield the readers of a chain, in the order of the inputs."""
    if isinstance(chain, ReadDataset):
        yield chain
    for upstream in getattr(chain, "inputs", ()):
        yield from readers_of(upstream)


def reader_numbers(chain: Any) -> dict[int, int]:
    """Return the number of each reader's first source, by the reader's ``id`` in this process."""
    found: dict[int, int] = {}
    number = 0
    for reader in readers_of(chain):
        if id(reader) not in found:
            found[id(reader)] = number
            number += len(reader.sources)
    return found


def source_names(chain: Any) -> list[str]:
    """Return the names of all sources: path and split part; a name that comes again has a number."""
    names: list[str] = []
    for reader in {id(reader): reader for reader in readers_of(chain)}.values():
        for source in reader.sources:
            request = source.request
            name = f"{request.path}:{request.split_part}"
            names.append(name if name not in names else f"{name}#{len(names)}")
    return names


_FORMATS = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG", "webp": "WebP", "mp4": "video", "wav": "audio", "mp3": "audio"}


def decoded_format(chain: Any) -> str:
    """Return the format of the media in the first source with media, such as ``JPEG``; empty without media."""
    for reader in readers_of(chain):
        for source in reader.sources:
            folder = vars(source).get("folder")  # opened, unless only the workers read it
            if not isinstance(folder, Dataset) or source.decoder is None:
                continue
            for part in folder.index.layout.part_stats:
                found = _FORMATS.get(part.name.rpartition(".")[2].lower())
                if found is not None:
                    return found
    return ""
