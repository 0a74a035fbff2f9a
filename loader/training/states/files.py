"""Files that hold saved states: which there are, what is in each, and the files of another number of ranks."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import StateError, StorageError
from ...storage import open_storage
from .checkpoint_file import Form, read_checkpoint
from .find import FoundState, Place, find_states, place_text
from .run_state import RunState
from .split_state import redistribute_states

__all__ = ["Redistributed", "StateFile", "list_state_files", "read_state_file", "redistribute_files"]

_SUFFIXES = (".json", ".pt", ".pth", ".ckpt")
_OF_ACCELERATE = re.compile(r"custom_checkpoint_\d+\.pkl")
"""What Accelerate calls the files of what is registered with it. Its other ``.pkl`` files hold generators' states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile:
    """A file, and the states in it.

    Attributes:
        path: The file.
        form: How it is written.
        states: In the order in which they stand there; empty where there is none.
        beside: The places of what else lies on the way to the states: ``("model", "step")``.
    """

    path: str
    form: Form
    states: tuple[FoundState, ...]
    beside: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Redistributed:
    """What :func:`redistribute_files` did.

    Attributes:
        ranks_before: R.
        ranks: R'.
        batch: The micro-batch of the run that comes next.
        folder: Where the files are.
        files: Their names, by rank.
        left_out: The places of what lay beside the states.
    """

    ranks_before: int
    ranks: int
    batch: int
    folder: str
    files: tuple[str, ...]
    left_out: tuple[str, ...]


def list_state_files(folder: str | os.PathLike[str]) -> list[str]:
    """Give the paths of the files directly in a folder that may hold states, by their names, sorted.

    Raises:
        StorageError: The folder is missing or cannot be read, or has no such file.
    """
    names = [info.name for info in open_storage(folder).list() if "/" not in info.name]
    found = [os.path.join(folder, name) for name in names if name.endswith(_SUFFIXES) or _OF_ACCELERATE.fullmatch(name)]
    if not found:
        raise StorageError(f"no file in this folder ends with {', '.join(_SUFFIXES)}", path=os.fspath(folder))
    return found


def read_state_file(path: str | os.PathLike[str], *, place: str | None = None) -> StateFile:
    """Read a file, and find the states in it.

    Args:
        path: The file.
        place: Where the states are that count: ``"data.train"``, or a list of them there; None: anywhere.

    Raises:
        StorageError: The file is missing, or cannot be read.
        StateError: It is neither JSON nor a file of ``torch.save``, holds objects that would run code, or a state in it
            is damaged.
    """
    file = read_checkpoint(path)
    try:
        states = find_states(file.content)
    except StateError as error:
        error.at = f"{file.path}: {error.at}" if error.at else file.path
        raise
    if place is not None:
        states = [one for one in states if place_text(one.place) == place or place_text(one.place[:-1]) == place]
    beside = dict.fromkeys(name for one in states for name in _beside(file.content, one.place))
    return StateFile(path=file.path, form=file.form, states=tuple(states), beside=tuple(beside))


def _beside(document: Any, place: Place) -> list[str]:
    """Name what lies beside the way to a place, in dicts."""
    found = []
    for depth, key in enumerate(place):
        if isinstance(document, Mapping):
            found += [place_text((*place[:depth], str(name))) for name in document if str(name) != key]
            document = next(value for name, value in document.items() if str(name) == key)
        else:
            document = document[key]
    return found


def redistribute_files(
    files: Sequence[StateFile], ranks: int, folder: str | os.PathLike[str], *, overwrite: bool = False
) -> Redistributed:
    """Write the states of a run for another number of ranks.

    What is written looks like what was read, so that the same code restores it. Files with a state each become files
    with a state each, named alike with another number for the rank (``_rank000`` is added where names have none); a
    list of all states in one file becomes such a list. States stand under the keys under which they stood; what lay
    beside them is left out. If one file cannot be written, none of the new ones stays.

    Args:
        files: The states of all ranks.
        ranks: R'.
        folder: Where to write; it is made where it is missing.
        overwrite: Replace files that are there.

    Raises:
        StateError: The states are not those of all ranks of one run, or it cannot go on with so many ranks.
        StorageError: A file is there, or cannot be written.
    """
    states = _distinct([one.state for file in files for one in file.states])
    place, in_list = _common_place(files)
    parts = redistribute_states(states, ranks)
    plain = [part.to_plain() for part in parts]
    form = files[0].form
    all_names = _names_of_ranks(files, max(ranks, states[0].ranks))
    names = [os.path.basename(files[0].path)] if in_list else all_names[:ranks]
    data = [_written(one, place, form) for one in ([plain] if in_list else plain)]
    _check_room(folder, names, [] if in_list else all_names[ranks:], overwrite=overwrite)
    _write_all(names, data, folder)
    left_out = dict.fromkeys(name for file in files for name in file.beside)
    return Redistributed(
        ranks_before=states[0].ranks,
        ranks=ranks,
        batch=min(part.batch for part in parts),
        folder=os.fspath(folder),
        files=tuple(names),
        left_out=tuple(left_out),
    )


def _distinct(states: Sequence[RunState]) -> list[RunState]:
    """Leave out states that are there several times, as where each rank keeps those of all."""
    kept: list[RunState] = []
    of_rank: dict[int | None, RunState] = {}
    for state in states:
        if of_rank.get(state.rank) != state:
            of_rank[state.rank] = state
            kept.append(state)
    return kept


def _common_place(files: Sequence[StateFile]) -> tuple[Place, bool]:
    """Give where all files hold their states, and whether each has a list of all of them there.

    Raises:
        StateError: They hold them at several places.
    """
    found = [one for file in files for one in file.states]
    lists = {one.place[:-1] for one in found if one.place and isinstance(one.place[-1], int)}
    alone = {one.place for one in found if not one.place or isinstance(one.place[-1], str)}
    single = len(files) > 1 and all(len(file.states) == 1 for file in files)
    if single and len({one.place for one in found}) == 1:
        return found[0].place, False
    if len(lists) == 1 and not alone:
        return lists.pop(), True
    if len(alone) == 1 and not lists and all(len(file.states) == 1 for file in files):
        return alone.pop(), False
    places = sorted({place_text(one.place) or "the top" for one in found})
    raise StateError(
        f"expected the states of one loader, found states at several places: {', '.join(places[:8])}",
        hint="name one with --place",
    )


def _names_of_ranks(files: Sequence[StateFile], ranks: int) -> list[str]:
    """Give the files of other ranks names like those of the files there are."""
    name = os.path.basename(files[0].path)
    for match in reversed(list(re.finditer(r"\d+", name))):
        before, after = name[: match.start()], name[match.end() :]
        if all(_number(file, before, after) == file.states[0].state.rank for file in files):
            width = len(match[0]) if match[0].startswith("0") else 0
            return [f"{before}{rank:0{width}}{after}" for rank in range(ranks)]
    stem, suffix = os.path.splitext(name)
    return [f"{stem}_rank{rank:03}{suffix}" for rank in range(ranks)]


def _number(file: StateFile, before: str, after: str) -> int | None:
    match = re.fullmatch(re.escape(before) + r"(\d+)" + re.escape(after), os.path.basename(file.path))
    return int(match[1]) if match else None


def _written(states: Any, place: Place, form: Form) -> bytes:
    document = states
    for key in reversed(place):
        document = {key: document} if isinstance(key, str) else [document]
    if form == "json":
        return json.dumps(document).encode()
    import torch

    file = io.BytesIO()
    torch.save(document, file)
    return file.getvalue()


def _check_room(
    folder: str | os.PathLike[str], names: Sequence[str], left_over: Sequence[str], *, overwrite: bool
) -> None:
    """Refuse to replace files, and to leave some of another number of ranks among the new ones."""
    storage = open_storage(folder)
    there = [name for name in names if storage.exists(name)]
    if there and not overwrite:
        raise StorageError(
            f"of the files to write, {len(there)} are there already: {_listed(there)}",
            path=storage.path(""),
            hint="write to another folder, or allow it with --overwrite",
        )
    more = [name for name in left_over if storage.exists(name)]
    if more:
        raise StorageError(
            f"{_listed(more)} of another number of ranks would stay among the new files",
            path=storage.path(""),
            hint="write to another folder",
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + " …" * (len(names) > 3)


def _write_all(names: Sequence[str], data: Sequence[bytes], folder: str | os.PathLike[str]) -> None:
    storage = open_storage(folder)
    new = []
    try:
        for name, content in zip(names, data, strict=True):
            is_new = not storage.exists(name)
            with storage.create(name) as file:
                file.write(content)
            if is_new:
                new.append(name)
    except BaseException:
        for name in new:
            storage.remove(name)
        raise
