"""Look up values of samples by their names: in columns and the index, or else as the caller computes them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...arrays import IntArray
from ...errors import ConfigError
from ...format.columns.column import Column, ComparedValues
from ...format.columns.column_files import open_column
from ...format.columns.column_record import column_of
from ...format.documents.messages import did_you_mean, nearest_names
from ...format.documents.value_name import INDEX_COLUMNS, ValueName
from ...format.nv_meta import FOLDER
from ..dataset import Dataset
from ..records import SingleFile
from ..tar import tar_index

Compute = Callable[[Dataset, Sequence[ValueName], IntArray], Mapping[ValueName, ComparedValues]]
"""Reads values of some samples of a dataset; each has as many as there are samples."""


class UnknownValueError(ConfigError):
    """No sample of a dataset has a value of this name."""


def write_command(folder: Dataset, names: Iterable[str]) -> str | None:
    """Return the command that writes values of all samples as columns; None if columns cannot be written."""
    if isinstance(folder, SingleFile) or folder.ref.is_temporary:
        return None
    words = ["energon", "stats", folder.path.rstrip("/"), "--write", ",".join(names)]
    words += ["--tokenizer", "tokenizer.json"] if _is_of_tokens(words[-1]) else []
    words += ["--meta-folder", folder.storage.path(FOLDER)] if folder.ref.folder_flags else []
    return shlex.join(words)


def column_or_values(
    folder: Dataset, text: str, columns: Collection[str] | None = None
) -> tuple[str | None, tuple[ValueName, ...]]:
    """Return the column that a name means, or the values of parts that it may mean; neither for an unknown name.

    The name of a column is that column; ``jpg.width`` and ``json[a]`` are the columns with these values, if any.
    """
    known = folder.documents.column_names() if columns is None else columns
    if text in known or text in INDEX_COLUMNS:
        return text, ()
    try:
        meant = folder.index.names.meant(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a name of a value: {error}", at=folder.path) from error
    if len(meant) == 1:
        column = column_of(folder.storage, meant[0])
        return column, () if column is not None else meant
    return None, meant


def is_indexed(folder: Dataset, text: str) -> bool:
    """Return True if values of a name are in a column or in the index, so that no sample is read."""
    column, meant = column_or_values(folder, text)
    return column is not None or _sized_part(meant) is not None


def _sized_part(meant: Sequence[ValueName]) -> str | None:
    return meant[0].part if len(meant) == 1 and meant[0].trait == "bytes" and not meant[0].path else None


def only_value(text: str, existing: Sequence[ValueName], *, at: str, known: Iterable[str] = ()) -> ValueName:
    """Return the value that a name means.

    Raises:
        UnknownValueError: No sample has such a value.
        ConfigError: Samples have several.
    """
    if len(existing) == 1:
        return existing[0]
    if existing:
        shown = ", ".join(map(str, existing))
        raise ConfigError(f"several values are called {text!r}: {shown}", at=at, hint="name one of these")
    hint = f"energon stats {at} shows the values of a dataset"
    if _is_of_tokens(text):
        hint = "energon stats counts tokens with --tokenizer: a .json file of tokenizers, or module:callable"
    # Names of values differ in their beginnings, so the last words are compared.
    by_word = {_last_word(name): name for name in known}
    near = nearest_names(_last_word(text), by_word, limit=1)
    meant = f"; did you mean {by_word[near[0]]!r}?" if near else ""
    raise UnknownValueError(f"no sample has the value {text!r}{meant}", at=at, hint=hint)


def _last_word(name: str) -> str:
    return re.split(r"[.\[\]]+", name.rstrip("]"))[-1]


def _is_of_tokens(text: str) -> bool:
    return text.rpartition(".")[2] == "tokens"


def no_column(folder: Dataset, text: str, meant: Sequence[ValueName]) -> ConfigError:
    """Return the error about a name that is not a column, where values of parts are not read."""
    certain = [name for name in meant if not name.path]  # measured of all parts of such names
    if len(certain) > 1:
        return ConfigError(
            f"there is no column {text!r}, and several values are called so: {', '.join(map(str, certain))}",
            at=folder.path,
            hint=f"name one of them; {_write_hint(folder, str(certain[0]))}",
        )
    every = [*folder.documents.column_names(), *INDEX_COLUMNS]
    hint = f"energon stats {folder.path} shows the values of the dataset"
    if meant:
        hint = _write_hint(folder, str(meant[0]) if len(meant) == 1 else text)
        hint += "" if len(meant) == 1 else ", and use the name that it prints"
    return ConfigError(f"there is no column {text!r}{did_you_mean(text, every)}", at=folder.path, hint=hint)


def _write_hint(folder: Dataset, name: str) -> str:
    command = write_command(folder, [name])
    return f"write it: {command}" if command else "columns need a prepared folder: run energon prepare on it"


class DatasetValues:
    """The values of some names.

    Args:
        names: The names, as :func:`column_or_values` takes them.
        samples: Numbers of the samples whose values are looked up, ascending.
        compute: Reads what is not a column; None refuses it.
        are_all: ComparedValues that no sample has are unknown names; otherwise, other samples may have them.
    """

    def __init__(
        self,
        folder: Dataset,
        names: Iterable[str],
        samples: IntArray,
        compute: Compute | None = None,
        *,
        are_all: bool = True,
    ) -> None:
        self.folder = folder
        self._samples = samples
        self._columns: dict[str, Column] = {}
        self._sizes: dict[str, str] = {}
        self._computed: dict[str, ComparedValues] = {}
        wanted: dict[str, tuple[ValueName, ...]] = {}
        # Look each name up in the columns and the index.
        columns = folder.documents.column_names()
        for name in names:
            column, meant = column_or_values(folder, name, columns)
            if column in columns:
                self._columns[name] = open_column(folder.storage, folder.index, column, reads_vectors=False)
            elif (part := _sized_part(meant)) is not None:
                self._sizes[name] = part
            elif column is None:
                if compute is None or all(value.trait == "tokens" for value in meant):
                    raise no_column(folder, name, meant)
                certain = [value for value in meant if not value.path]  # parts of such names have them all
                only_value(name, certain or meant[:1], at=folder.path)
                wanted[name] = meant
        # Read the others from the samples.
        if compute is not None and wanted:
            every = list(dict.fromkeys(value for some in wanted.values() for value in some))
            values = compute(folder, every, samples)
            for name, meant in wanted.items():
                existing = [value for value in meant if values[value].known.any()]
                if not existing and not (are_all and len(samples)):
                    existing = [meant[0]]
                self._computed[name] = values[only_value(name, existing, at=folder.path)]

    @property
    def rows_at_once(self) -> int:
        """Number of samples whose values take little memory."""
        return min((column.rows_at_once for column in self._columns.values()), default=Column.rows_at_once)

    def values(self, name: str, samples: IntArray, *, vectors: bool = False) -> ComparedValues:
        """Return the values of a name for some samples.

        Args:
            vectors: Vectors have no elements, shape (n, 0), but are known or not; otherwise they are an error.

        Raises:
            ConfigError: The name is a column of vectors.
        """
        # The value is in a column, the size of a part, computed, or part of the index.
        column = self._columns.get(name)
        if column is not None:
            compared = column.compared(samples)
            if compared.values.ndim > 1 and not vectors:
                raise ConfigError(
                    f"expected a column of numbers or texts, found {column.kind} in column {name!r}",
                    at=self.folder.path,
                    hint="name another column",
                )
            return compared
        if name in self._sizes:
            return self.size(self._sizes[name], samples)
        if name in self._computed:
            computed, places = self._computed[name], np.searchsorted(self._samples, samples)
            return replace(computed, values=computed.values[places], known=computed.known[places])
        if name == "shard":
            shards = self.folder.index.shards
            firsts = np.array([shard.first_sample for shard in shards])
            shard = np.searchsorted(firsts, samples, side="right") - 1
            return ComparedValues(shard, np.ones(len(samples), np.bool_), tuple(entry.name for entry in shards))
        return self._of_parts(samples, None)

    def size(self, part: str, samples: IntArray) -> ComparedValues:
        return self._of_parts(samples, part)

    def _of_parts(self, samples: IntArray, part: str | None) -> ComparedValues:
        if not self.folder.index.names.has_sizes:
            raise ConfigError(
                "the sizes of parts are known of tar shards only", at=self.folder.path, hint="use a column instead"
            )
        # Find the range of each sample in the columns of parts.
        index = tar_index(self.folder)
        ends = index.part_ends[samples].astype(np.int64)
        starts = np.where(samples > 0, index.part_ends[np.maximum(samples - 1, 0)].astype(np.int64), 0)
        counts = ends - starts
        # List the row of each part, and the sample that owns it.
        owners = np.repeat(np.arange(len(samples)), counts)
        rows = np.arange(len(owners)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        # Choose the parts of one name.
        if part is not None:
            if part not in index.part_names:
                raise ConfigError(
                    f"there is no part {part!r}{did_you_mean(part, index.part_names[:20])}",
                    at=self.folder.path,
                    hint="name a part as energon info lists them",
                )
            is_part = index.part_name[rows] == index.part_names.index(part)
            owners, rows = owners[is_part], rows[is_part]
        # Add the sizes of each sample's parts.
        sizes = np.bincount(owners, index.part_size[rows], minlength=len(samples)).astype(np.int64)
        return ComparedValues(sizes, np.bincount(owners, minlength=len(samples)) > 0)
