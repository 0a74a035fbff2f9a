"""Inspect some samples of each shard, in the processes that scan the shards, and collect what they contain.

These are the kinds of parts, by their first bytes, and the keys inside json parts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import EnergonError, plural
from ...format.documents.value_name import ValueName, is_part_name
from ...format.index.shard_index import ShardIndex
from ...parts.kinds import (
    HEADER_BYTES,
    MEDIA_KINDS,
    Kind,
    is_compressed,
    kind_of_bytes,
    kind_of_name,
    part_extension,
)
from ...parts.large_parts import is_limited
from ...parts.part_sets import PartSetCounter
from ...storage import FileInfo, ReadableFile, Storage
from .texts import Texts

_MAX_SHARDS = 2000  # whose samples are inspected, besides the shards of rare part sets
_MIN_SAMPLES = 256  # in all shards, if there are few shards
_MAX_RARE = 1000  # samples of further part sets, for each process
_MAX_RARE_OF_SHARD = 32
_MAX_REQUESTS = 56  # to an object store, of all processes; the first sample takes a few more
MAX_JSON_BYTES = 1 << 20  # size of a json part up to which it is parsed

_SMALL_PARTS = 64  # in a shard
_MAX_LAYOUTS = 10_000  # of small shards, that are remembered
_READ_TOGETHER = 256 * 1024  # bytes of a sample up to which it is read at once


@dataclass(slots=True)
class ContentSampler:
    """Inspects samples: some of each chosen shard, and one of each part set that it has not seen."""

    samples_of: Mapping[str, int]  # shard → number of samples to inspect
    requests: float = math.inf  # number of reads that this process may do
    max_json_bytes: int | None = None  # larger JSON parts are counted, in all samples of the shards; None counts none
    _seen: set[tuple[str, ...]] = field(default_factory=set)
    _layouts: set[object] = field(default_factory=set)  # parts of small shards: many have the same ones
    _rare: int = 0

    @staticmethod
    def of_shards(
        shards: Sequence[str],
        *,
        is_far: bool,
        workers: int,
        also: Iterable[str] = (),
        max_json_bytes: int | None = None,
    ) -> ContentSampler:
        """Return a sampler for a dataset: of many shards, it inspects evenly spread ones."""
        most = _MAX_REQUESTS if is_far else _MAX_SHARDS
        stride = max(1, -(-len(shards) // most))
        chosen = shards[::stride]
        each = 1 if is_far else max(1, -(-_MIN_SAMPLES // max(1, len(chosen))))
        return ContentSampler(
            dict.fromkeys(also, 0) | dict.fromkeys(chosen, each),
            _MAX_REQUESTS // max(1, workers) if is_far else math.inf,
            max_json_bytes,
        )

    def inspect(self, storage: Storage, shard: FileInfo, index: ShardIndex, *, head: bytes = b"") -> Contents:
        """Inspect samples of a shard that was just indexed.

        Args:
            head: First bytes of the shard, as far as the scan has fetched them.
        """
        contents = Contents()
        self._count_large(shard.name, index, contents)
        samples = self._choose(shard.name, index)
        if not samples or (self.requests <= 0 and not head):
            return contents
        try:
            with storage.open(shard.name, shard) as opened:
                opened.expect_few()
                for sample in samples:
                    key = f"{shard.name}/{index.key(sample)}"
                    self._look_at(opened, head, index, sample, key=key, contents=contents)
        except EnergonError:
            pass  # the shard was removed or replaced meanwhile: the prepare reports it
        contents.shards = min(1, contents.samples)
        return contents

    def _count_large(self, shard: str, index: ShardIndex, contents: Contents) -> None:
        if self.max_json_bytes is None:
            return
        limited = [name_id for name_id, name in enumerate(index.part_names) if is_limited(name)]
        rows = np.flatnonzero((index.part_size > self.max_json_bytes) & np.isin(index.part_name, limited))
        if len(rows):
            sample = int(np.searchsorted(index.part_ends, rows[0], side="right"))
            contents.large, contents.large_example = len(rows), f"{shard}/{index.key(sample)}"

    def _choose(self, shard: str, index: ShardIndex) -> list[int]:
        """Return samples that are evenly spread, and the first one of each part set that was not seen before."""
        count = min(self.samples_of.get(shard, 0), len(index))
        chosen = {sample * len(index) // count for sample in range(count)}
        is_small = len(index.part_name) <= _SMALL_PARTS
        layout = (index.part_names, index.part_name.tobytes(), index.part_ends.tobytes()) if is_small else None
        if layout is not None and layout in self._layouts:
            return sorted(chosen)
        if len(self._layouts) < _MAX_LAYOUTS:
            self._layouts.add(layout)
        counter = PartSetCounter()
        counter.add(index.part_ends, index.part_name)
        sets = counter.finish(index.part_names, index.key).sets
        rare = [each for each in sets if each.parts not in self._seen][:_MAX_RARE_OF_SHARD]
        if self._rare < _MAX_RARE:
            self._rare += len(rare)
            self._seen.update(each.parts for each in rare)
            chosen.update(each.first_sample for each in rare)
        return sorted(chosen)

    def _look_at(
        self, file: ReadableFile, head: bytes, index: ShardIndex, sample: int, *, key: str, contents: Contents
    ) -> None:
        rows = slice(int(index.part_ends[sample - 1]) if sample else 0, int(index.part_ends[sample]))
        parts = [
            (index.part_names[name], offset, size)
            for name, offset, size in zip(
                index.part_name[rows].tolist(),
                index.part_offset[rows].tolist(),
                index.part_size[rows].tolist(),
                strict=True,
            )
        ]
        contents.samples += 1
        for name, size, data in self._read(file, head, parts):
            contents.add_part(name, kind_of_bytes(data[:HEADER_BYTES], size), key)
            if kind_of_name(name) == "text" and (text := data[:HEADER_BYTES].decode("utf-8", "replace").strip()):
                contents.texts.setdefault(name, Texts()).add([text])
            if _is_json(name) and len(data) == size:
                document = parse_document(data)
                if document is not None:
                    contents.add_document(name, document, key, size_bytes=size)

    def _read(
        self, file: ReadableFile, head: bytes, parts: Sequence[tuple[str, int, int]]
    ) -> Iterator[tuple[str, int, bytes]]:
        """Yield the name, the size and the first bytes of each part; json parts are read whole, unless very large."""
        wanted = [
            (name, size, offset, min(size, MAX_JSON_BYTES if _is_json(name) else HEADER_BYTES))
            for name, offset, size in parts
        ]

        def read_at(offset: int, stop: int) -> bytes | None:
            if stop <= len(head):
                return head[offset:stop]
            self.requests -= 1
            return file.read_at(offset, stop - offset) if self.requests >= 0 else None

        start = min(offset for _, _, offset, _ in wanted)
        stop = max(offset + length for _, _, offset, length in wanted)
        if stop - start <= _READ_TOGETHER:
            together = read_at(start, stop)
            if together is not None:
                yield from (
                    (name, size, together[at - start : at - start + length]) for name, size, at, length in wanted
                )
            return
        for name, size, offset, length in wanted:
            data = read_at(offset, offset + length) if length else b""
            if data is not None:
                yield name, size, data


def _is_json(name: str) -> bool:
    return part_extension(name) in ("json", "jsn") and not is_compressed(name)


def parse_document(text: bytes) -> dict[str, Any] | None:
    """Parse a JSON object; return None for other values and other texts."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


_MAX_EXPRESSIONS = 200
_MAX_PATH = 5
_MAX_KEY = 80  # characters


_MAX_STRUCTURES = 500  # keys of json may be different in each sample
_MAX_NAMES = 2000  # of parts
_LARGE_DOCUMENT_BYTES = 16 * 1024  # as text
_MAX_TEXT = 200  # characters of a text, and items of a list, in a large document that is sent between processes
_MAX_ITEMS = 50
_MAX_DEPTH = 6
_MAX_KEYS = 5  # of json, in a sentence
# Kinds that few names mean: under other names, such files are something else than their names say.
_FALSE_KINDS = ("page", "pointer", "archive")


@dataclass(slots=True)
class Structure:
    """The json parts with the same keys: their number, and the first sample with one."""

    parts: int
    example: str


@dataclass(slots=True)
class Contents:
    """The contents of some samples. Contents of several shards are merged in the order of the shards."""

    samples: int = 0
    shards: int = 0  # number of their shards
    # part name → kind by the first bytes → number of such parts, and the first sample with one
    kinds: dict[str, dict[Kind, tuple[int, str]]] = field(default_factory=dict)
    # part name → expressions of all values inside → the json parts with these values
    structures: dict[str, dict[tuple[str, ...], Structure]] = field(default_factory=dict)
    # part name → the json parts merged: all keys, each with the first value
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    texts: dict[str, Texts] = field(default_factory=dict)  # part name → what its texts have in common
    large: int = 0  # number of parts of all samples that are too large to be parsed
    large_example: str = ""  # the first sample with one

    def add_part(self, name: str, kind: Kind, example: str, parts: int = 1) -> None:
        if name in self.kinds or len(self.kinds) < _MAX_NAMES:
            count, first = self.kinds.setdefault(name, {}).get(kind, (0, example))
            self.kinds[name][kind] = count + parts, first

    def add_document(self, name: str, document: Mapping[str, Any], example: str, *, size_bytes: int) -> None:
        values = json_expressions([(name, document)])
        if self._add_structure(name, values, Structure(1, example)):
            pruned = document if size_bytes <= _LARGE_DOCUMENT_BYTES else _pruned(document, _MAX_DEPTH)
            self.documents[name] = _merged(self.documents.get(name, {}), pruned)

    def _add_structure(self, name: str, values: tuple[str, ...], added: Structure) -> bool:
        """Count json parts; return True if their keys are new."""
        of_part = self.structures.setdefault(name, {})
        known = of_part.get(values)
        if known is not None:
            known.parts += added.parts
            return False
        if len(of_part) >= _MAX_STRUCTURES:  # counted with others, so that the sum is right
            next(reversed(of_part.values())).parts += added.parts
            return False
        of_part[values] = Structure(added.parts, added.example)
        return True

    def merge(self, other: Contents) -> None:
        """Add the contents of later samples."""
        self.samples += other.samples
        self.shards += other.shards
        self.large += other.large
        self.large_example = self.large_example or other.large_example
        for name, kinds in other.kinds.items():
            for kind, (count, example) in kinds.items():
                self.add_part(name, kind, example, count)
        for name, texts in other.texts.items():
            self.texts.setdefault(name, Texts()).merge(texts)
        for name, structures in other.structures.items():
            is_new = [self._add_structure(name, values, each) for values, each in structures.items()]
            if any(is_new):
                self.documents[name] = _merged(self.documents.get(name, {}), other.documents.get(name, {}))

    def json_values(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(value for of_part in self.structures.values() for each in of_part for value in each))

    def json_example(self) -> dict[str, Any] | None:
        """Return the merged ``json`` part, or the merged part of another name; None without one."""
        return next((self.documents[name] for name in ("json", "jsn", *self.documents) if name in self.documents), None)

    def part_kinds(self) -> dict[str, Kind]:
        """Return the kind of each part: the most frequent one, but pictures, sound or video before others."""
        return {
            name: max(kinds, key=lambda kind, of=kinds: (kind.kind in MEDIA_KINDS, of[kind][0]))  # type: ignore[misc]
            for name, kinds in self.kinds.items()
        }

    def count_with(self, values: Sequence[str]) -> tuple[int, int]:
        """Return how many inspected json parts have all of these values, and how many there are; 1 of 1 without any."""
        counts = [(1, 1)]
        for name, of_part in self.structures.items():
            wanted = [value for value in values if value.partition("[")[0] == name]
            having = [n.parts for keys, n in of_part.items() if all(any(k.startswith(v) for k in keys) for v in wanted)]
            counts.append((sum(having), sum(each.parts for each in of_part.values())))
        return min(counts, key=lambda count: count[0] / count[1])

    def missing(self, name: str, value: str) -> str:
        """Return in how many json parts of a name a value is missing; an empty text for none, or for all."""
        of_part = self.structures.get(name, {})
        without = [each for values, each in of_part.items() if not any(inner.startswith(value) for inner in values)]
        if not 0 < len(without) < len(of_part):
            return ""
        total, lacking = (sum(each.parts for each in group) for group in (of_part.values(), without))
        return f"is missing in {lacking:,} of {total:,} {name} parts inspected, first {without[0].example}"

    def conflicts(self) -> Iterator[str]:
        """Yield a sentence for each part that is not always the same kind of file, or another one than its name says.

        Also for the keys inside json that only some samples have, and for parts that are too large to be parsed.
        """
        if self.large:
            parts = plural(self.large, "JSON part is", "JSON parts are")
            yield f"{parts} larger than --max-json-bytes, so not parsed, first {self.large_example} (W310)"
        for name, kinds in self.kinds.items():
            groups = {_group(kind) for kind in kinds if kind.kind != "empty"}
            if len(groups) < 2 and not any(_is_false(name, kind) for kind in kinds):
                continue
            by_count = sorted(kinds.items(), key=lambda item: -item[1][0])
            pieces = [f"{kind.description} in {count:,} (first {example})" for kind, (count, example) in by_count]
            total = sum(count for count, _ in kinds.values())
            yield f"part {name!r}, inspected in {plural(total, 'sample')}, is {', '.join(pieces)}"
        for name, structures in self.structures.items():
            tops = (key for values in structures for key in sorted({_top(name, value) for value in values}))
            partial = [f"{key} {share}" for key in dict.fromkeys(tops) if (share := self.missing(name, key))]
            more = f"; and {plural(len(partial) - _MAX_KEYS, 'more key')}" if len(partial) > _MAX_KEYS else ""
            if partial:
                yield "; ".join(partial[:_MAX_KEYS]) + more


def _is_false(name: str, kind: Kind) -> bool:
    """Return True for files that are surely something else than their name says."""
    if kind.kind in _FALSE_KINDS:
        return kind.extension != part_extension(name) and not is_compressed(name)
    return kind_of_name(name) in MEDIA_KINDS and kind.kind in ("text", "tree", "empty")


def _group(kind: Kind) -> str:
    """Return the group of kinds that one part name may mean: a json text is a text, and sound may be in an MP4."""
    if kind.kind in ("text", "tree", "bytes", "label"):
        return "text"
    return "sound or video" if kind.kind in ("audio", "video") else kind.kind


def _top(name: str, value: str) -> str:
    """Return the expression of the key in which a value is: ``json[meta]`` of ``json[meta][url]``.

    >>> _top("json", 'json["a[0]"][url]'), _top("json", "json[id]")
    ('json["a[0]"]', 'json[id]')
    """
    inside = value[len(name) :]
    quote = inside[1:2] if inside[1:2] in ("'", '"') else ""
    return name + inside[: inside.index(f"{quote}]", 2 if quote else 1) + len(quote) + 1]


def _merged(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(earlier)
    for key, value in later.items():
        known = merged.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = _merged(known, value)
        elif known in (None, "", []):
            merged[key] = value
    return merged


def _pruned(value: Any, depth: int) -> Any:
    """Return a document with short texts and lists."""
    if isinstance(value, str):
        return value[:_MAX_TEXT]
    if isinstance(value, Mapping):
        items = list(value.items())[: 4 * _MAX_ITEMS]
        return {key[:_MAX_TEXT]: _pruned(inner, depth - 1) for key, inner in items} if depth else {}
    if isinstance(value, list):
        return [_pruned(inner, depth - 1) for inner in value[:_MAX_ITEMS]] if depth else []
    return value


def json_expressions(documents: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[str, ...]:
    """Return the expressions of all values inside documents, in the order of the first document that has them.

    A mapping inside a mapping is listed by its values only; a list by itself and by its first item.

    Args:
        documents: Pairs of the name of a part and its decoded value.

    >>> json_expressions([("json", {"caption": "a cat", "meta": {"url": "", "tags": ["x"]}})])
    ('json[caption]', 'json[meta][url]', 'json[meta][tags]', 'json[meta][tags][0]')
    """
    expressions: dict[str, None] = {}
    for part, document in documents:
        for path in _paths(document, ()) if is_part_name(part) else ():
            expressions.setdefault(ValueName(part, path).expression)
            if len(expressions) == _MAX_EXPRESSIONS:
                return tuple(expressions)
    return tuple(expressions)


def _paths(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if path and not (isinstance(value, Mapping) and value and len(path) < _MAX_PATH):
        yield path
    if len(path) == _MAX_PATH:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if len(key) <= _MAX_KEY and key.isprintable():
                yield from _paths(inner, (*path, key))
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        yield from _paths(value[0], (*path, 0))
