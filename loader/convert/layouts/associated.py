"""Find the files of BIDS about recordings: their names have some of the entities of the name of a recording."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from ..file_trees.file_names import join_names
from ..rows.row import unique_part
from ..tables.named_files import part_name_of_column, split_name

_SUBJECT = re.compile(r"(?:.*/)?sub-[A-Za-z0-9+]+(?:/.*)?")
_RECORDING = re.compile(r"sub-[A-Za-z0-9+]+(?:_[A-Za-z0-9]+-[A-Za-z0-9+]+)*_[A-Za-z0-9]+")
_ENDINGS = ("json", "tsv", "tsv.gz", "bval", "bvec")  # of files about recordings
_OF_ROWS = frozenset({"participants", "sessions", "scans"})  # suffixes of tables whose rows name recordings or folders
_OF_CONTENTS = frozenset({"desc", "space", "recording"})  # entities of a file about a recording, and not of this
_DERIVATIVES = "derivatives"  # a folder of datasets of their own


def find_associated(folders: Sequence[str], names: Sequence[str]) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return the parts that files add to recordings, and the tables about recordings that are not there.

    A file belongs to the recordings in its folder and below whose names have all of its entities. One with their
    suffix, such as ``task-rest_bold.json``, has what recordings inherit; others are ``events.tsv``, ``channels.tsv``.

    Args:
        folders: All folders; without one of a subject, this is another tree.

    Returns:
        Path of a recording without its extension → name of the part → file; and names of tables.
    """
    if not any(map(_SUBJECT.fullmatch, folders)):
        return {}, []
    # Sort the files into recordings and files about recordings; parts of a recording have its name.
    split = {name: split_name(name) for name in names}
    recordings = {
        (folder, stem): _entities(stem)
        for folder, stem, extension in split.values()
        if extension not in _ENDINGS and _RECORDING.fullmatch(stem)
    }
    suffixes = {entities[""] for entities in recordings.values()}
    of_entity: defaultdict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for recording, entities in recordings.items():
        for entity in entities.items():
            of_entity[entity].add(recording)
    # Find the recordings of each file, those nearest to it first.
    parts: dict[str, dict[str, str]] = {}
    alone: list[str] = []
    for name, (folder, stem, extension) in sorted(split.items(), key=lambda item: -item[0].count("/")):
        if extension not in _ENDINGS or (folder, stem) in recordings:
            continue
        entities = _entities(stem)
        suffix = entities[""]
        is_inherited = suffix in suffixes
        if not is_inherited:
            entities = {key: value for key, value in entities.items() if key and key not in _OF_CONTENTS}
        if suffix in _OF_ROWS or not entities:
            continue
        alike = set.intersection(*(of_entity.get(entity, set()) for entity in entities.items()))
        below = [each for each in alike if _is_below(each[0], folder)]
        for above, main in below:
            taken = parts.setdefault(join_names(above, main), {})
            is_free = is_inherited and join_names(above, f"{main}.{extension}") not in split
            rest = "_".join(piece for piece in stem.split("_") if piece not in main.split("_") or piece == suffix)
            part = extension if is_free else f"{part_name_of_column(rest)}.{extension}"
            taken[unique_part(part, taken)] = name
        if not below and extension.startswith("tsv") and _RECORDING.fullmatch(stem):
            alone.append(name)
    return parts, alone


def _entities(stem: str) -> dict[str, str]:
    *pairs, suffix = stem.split("_")
    return {**dict(pair.partition("-")[::2] for pair in pairs), "": suffix}


def _is_below(folder: str, above: str) -> bool:
    inner = folder.removeprefix(above).strip("/").split("/")
    return f"{folder}/".startswith(f"{above}/".lstrip("/")) and _DERIVATIVES not in inner
