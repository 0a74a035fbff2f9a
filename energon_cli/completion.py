"""Complete values on the command line, in shells that ask click for candidates.

The values of a parameter are found by its name, so that the commands share them. Nothing here may fail or print: a
shell would show it in the middle of a line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, takewhile
from typing import Any

import click
from click.shell_completion import CompletionItem

# Bash asks before it lists more.
_MAX_CANDIDATES = 100
_MAX_KEYS = 200_000  # of one shard: reading more would keep the shell waiting


class _Completed(click.types.StringParamType):
    def __init__(self, candidates: Callable[[click.Context, str], Iterable[CompletionItem]], plain: Any) -> None:
        self._candidates = candidates
        self.convert = plain.convert  # type: ignore[method-assign]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del param
        try:
            return list(self._candidates(ctx, incomplete))
        except Exception:  # noqa: BLE001 - a missing or damaged dataset has no candidates
            return []


def complete_values(parameters: Iterable[click.Parameter]) -> None:
    """Let shells complete the values of parameters whose names are known here; flags and choices complete by click."""
    for parameter in parameters:
        complete = _CANDIDATES.get(parameter.name or "")
        # `prepare --split-parts NAME:PATTERN` defines split parts; the other commands choose among those that exist.
        if complete is not None and not (parameter.name == "split_parts" and parameter.multiple):
            parameter.type = _Completed(complete, parameter.type)


def _files(_ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


def _folders(_ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="dir")]


def _shares(_ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    return _starting_with(incomplete, ["auto"])


def _sample_types(_ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    from loader.format.documents import SAMPLE_TYPES

    return _starting_with(incomplete, SAMPLE_TYPES)


def _split_parts(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    before, comma, last = incomplete.rpartition(",")
    names = [name for name in _names_of_parts(ctx) if name not in before.split(",")]
    return [CompletionItem(f"{before}{comma}{item.value}") for item in _starting_with(last, names)]


def _split_part(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    return _starting_with(incomplete, _names_of_parts(ctx))


def _keys_and_parts(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Complete the words of ``energon get``: keys, and after a key also the names of its parts."""
    from loader.inspect import open_sample

    words = ctx.params.get("words") or ()
    if not words:
        return _keys(ctx, incomplete)
    parts = [part.name for part in open_sample(_path(ctx), words[-1]).parts]
    return _starting_with(incomplete, parts) or _keys(ctx, incomplete)


def _names_of_parts(ctx: click.Context) -> Sequence[str]:
    from loader.format import DatasetRef

    path = _path(ctx)
    if DatasetRef(path).kind.is_mix:
        import yaml

        with open(path, encoding="utf-8") as file:
            return list(yaml.safe_load(file)["splits"])
    from loader.dataset import folder_at

    split = folder_at(DatasetRef(path, split_config=ctx.params.get("split_config") or "split.yaml")).documents.split
    return [] if split is None else list(split.split_parts)


def _keys(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a shard, then a key in it. Many candidates are cut to the characters that differ first."""
    from loader.dataset import folder_at

    index = folder_at(_path(ctx)).index
    shards = [shard for shard in index.shards if _either_starts(f"{shard.name}/", incomplete)]
    if len(shards) > 1:
        return _starting_with(incomplete, _shortened([f"{shard.name}/" for shard in shards], incomplete))
    keys = (f"{shard.name}/{index.key(sample)}" for shard in shards for sample in index.samples_of(shard))
    matching = [key for key in islice(keys, _MAX_KEYS) if key.startswith(incomplete)]
    return _starting_with(incomplete, _shortened(matching, incomplete))


def _names_of_documents(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    names = os.listdir(os.path.join(_path(ctx), ".nv-meta"))
    return _starting_with(incomplete, sorted(name for name in names if name.endswith((".yaml", ".yml"))))


_CANDIDATES: dict[str, Callable[[click.Context, str], Iterable[CompletionItem]]] = {
    "path": _files,
    "paths": _files,
    "files": _files,
    "log_paths": _files,
    "other": _files,
    "dataset": _files,
    "output": _files,
    "html": _files,
    "keys_from": _files,
    "heatmap_path": _files,
    "output_path": _folders,
    "directory": _folders,
    "meta_folder": _folders,
    "tmp_path": _folders,
    "address": _files,
    "share": _shares,
    "sample_type": _sample_types,
    "split_parts": _split_parts,
    "split_part": _split_part,
    "key": _keys,
    "keys": _keys,
    "words": _keys_and_parts,
    "dataset_config": _names_of_documents,
    "split_config": _names_of_documents,
}


def _path(ctx: click.Context) -> str:
    """Return the dataset that the line names before the word to complete.

    The word to complete is often the missing value of an option. Then click leaves the arguments unparsed.
    """
    path: str | None = ctx.params.get("path") or next(iter(ctx.params.get("paths") or ()), None)
    path = os.path.expanduser(ctx.args[0] if path is None else path)
    if "://" in path:
        raise ValueError("requests would keep the shell waiting")
    return path


def _starting_with(incomplete: str, values: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(value) for value in values if value.startswith(incomplete)]


def _either_starts(name: str, incomplete: str) -> bool:
    return name.startswith(incomplete) or incomplete.startswith(name)


def _shortened(values: Sequence[str], incomplete: str) -> list[str]:
    """Return the values; if they are too many, their different beginnings, as few characters longer as possible.

    >>> _shortened(["b0", "b1"], "")
    ['b0', 'b1']
    >>> _shortened([f"a/{number:04d}" for number in range(2000)], "a")
    ['a/0', 'a/1']
    """
    if len(values) <= _MAX_CANDIDATES:
        return list(values)
    in_common = takewhile(lambda pair: pair[0] == pair[1], zip(min(values), max(values), strict=False))
    length = max(sum(1 for _ in in_common), len(incomplete)) + 1
    return list(dict.fromkeys(value[:length] for value in values))
