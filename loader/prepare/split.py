"""Plan the split of a dataset, as requested or from its ``split.yaml``, and write it."""

from __future__ import annotations

import difflib
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from ..errors import ConfigError, EnergonError, Fault, plural
from ..format.documents.brace_patterns import match_names
from ..format.documents.dataset_files import read_split_config
from ..format.documents.split_config import SplitConfig, format_split_config, parse_split_config, split_sample_name
from ..format.documents.subset import ShareRange, SubsetRange
from ..format.filters.rows import FilterFiles
from ..format.index.layout import ShardEntry
from ..format.nv_meta import FOLDER, SPLIT_YAML
from ..storage import Storage
from .plan import PartSize, SplitRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSplit:
    """The split that a dataset will have."""

    parts: dict[str, tuple[str, ...]]  # part → shards
    text: str | None = None  # text of split.yaml; None keeps the existing file
    warnings: tuple[str, ...] = ()  # results that the user may not expect, one sentence each
    ranges: Mapping[str, SubsetRange] = field(default_factory=dict)  # part → its range of each of its shards
    filters: Mapping[str, str] = field(default_factory=dict)  # part → the filter that keeps its samples

    def counts(self, shards: Sequence[ShardEntry], *, storage: Storage) -> dict[str, PartSize]:
        """Return for each part the numbers of its shards and of its samples.

        Args:
            shards: Shards of the index; one of the split that is not among them has no samples.
        """
        config = SplitConfig(split_parts={}, sample_ranges=self.ranges)
        samples, file = {shard.name: shard.samples for shard in shards}, storage.path(f"{FOLDER}/{SPLIT_YAML}")
        counted: dict[str, PartSize] = {}
        for part, names in self.parts.items():
            known = (name for name in names if name in samples)
            ranges = (config.samples_of(part, samples[name], shard=name, file=file) for name in known)
            counted[part] = PartSize(len(names), sum(map(len, ranges)))
            if part in self.filters:
                kept = FilterFiles.of_dataset(storage, self.filters[part])
                counts = kept.read_counts() if kept.exist() else {}
                counted[part] = PartSize(len(names), sum(counts.get(name, 0) for name in names))
        return counted

    def share_of(self, part: str) -> Fraction:
        """Return the share of its shards that belongs to a part; 1 where it is not known before the scan."""
        subset = self.ranges.get(part)
        return subset.stop - subset.start if isinstance(subset, ShareRange) else Fraction(1)


# -------------------------------------------------------------------------------------------------------- by ratio


def split_by_ratio(
    shards: Sequence[str], ratio: Mapping[str, float], *, shuffle_seed: int | None = None
) -> PlannedSplit:
    """Assign whole shards to parts, in order, each part up to its running fraction (rounded down).

    While there are enough shards, every part with a ratio above 0 gets one, the first parts first: 8,1,1 over one shard
    is all train. megatron-energon has the same result, unless it leaves such a part empty.

    Args:
        shards: Shards of the dataset, in order.
        ratio: Part → its share, in any unit.
        shuffle_seed: Seed that shuffles the shards first; None keeps them in order.

    Returns:
        All parts of ``ratio``, empty ones too, and a warning for each part that is empty although its ratio is not 0.

    >>> split_by_ratio(["a", "b", "c", "d"], {"train": 8, "val": 1, "test": 1}).parts
    {'train': ('a', 'b'), 'val': ('c',), 'test': ('d',)}
    """
    ordered = list(shards)
    if shuffle_seed is not None:
        _shuffle(ordered, shuffle_seed)
    # Decimals instead of binary fractions: 0.7 + 0.2 + 0.1 is exactly 1, and a tenth of ten shards is one.
    shares = {name: Fraction(str(share)) for name, share in ratio.items()}
    with_share = [name for name, share in shares.items() if share > 0]
    total = sum(shares.values())
    ends: dict[str, int] = {}
    end = 0
    running = Fraction(0)
    for rank, name in enumerate(with_share, start=1):
        running += shares[name]
        later = len(with_share) - rank
        # Keep one shard for each later part, but take at least one.
        end = min(len(ordered), max(end + 1, min(math.floor(len(ordered) * running / total), len(ordered) - later)))
        ends[name] = end
    parts: dict[str, tuple[str, ...]] = {}
    start = 0
    for name in shares:
        stop = ends.get(name, start)
        parts[name] = tuple(ordered[start:stop])
        start = stop
    empty = [name for name in with_share if not parts[name]]
    warnings = [
        f"part {name!r} is empty: {plural(len(shards), 'shard')} for {plural(len(with_share), 'part')}, "
        "and shards are never divided"
        for name in empty
    ]
    return PlannedSplit(parts=parts, warnings=tuple(warnings))


def ranges_by_ratio(ratio: Mapping[str, float]) -> dict[str, SubsetRange]:
    """Return the share of every shard for each part with a ratio above 0; the shares meet, and sum to 1.

    >>> {part: str(share) for part, share in ranges_by_ratio({"train": 2, "val": 1, "test": 0}).items()}
    {'train': '[0%, 66.6667%]', 'val': '[66.6667%, 100%]'}
    """
    shares = {name: Fraction(str(share)) for name, share in ratio.items() if share > 0}
    total, start, running = sum(shares.values()), Fraction(0), Fraction(0)
    ranges: dict[str, SubsetRange] = {}
    for name, share in shares.items():
        running += share
        stop = Fraction(round(running / total * 1_000_000), 1_000_000)  # a short percentage in the file
        if stop > start:
            ranges[name] = ShareRange(start=start, stop=stop)
        start = stop
    return ranges


def _shuffle(items: list[str], seed: int) -> None:
    """Shuffle in place, the same way under every version of Python.

    ``random.Random(seed).shuffle`` has the same result today, and seed 42 has the order of megatron-energon. Python
    guarantees the generator's bits for a seed, but not the algorithm of ``shuffle``, so it is repeated here.
    """
    bits = random.Random(seed).getrandbits
    for count in range(len(items), 1, -1):
        chosen = count
        while chosen >= count:
            chosen = bits(count.bit_length())
        items[chosen], items[count - 1] = items[count - 1], items[chosen]


# ----------------------------------------------------------------------------------------------------- by patterns


def parse_split_part(text: str) -> tuple[str, str]:
    """Parse ``NAME:PATTERN``.

    Raises:
        ConfigError: The text has no colon, or one side of it is empty.

    >>> parse_split_part("train:glob:train/*.tar")
    ('train', 'glob:train/*.tar')
    """
    name, colon, pattern = text.partition(":")
    name, pattern = name.strip(), pattern.strip()
    if not (name and colon and pattern):
        raise ConfigError(
            f"the split part {text!r} is not NAME:PATTERN",
            hint="write for example 'train:train/.*' (a regex), 'train:s_{000..019}.tar' or 'train:glob:train/*.tar'",
        )
    return name, pattern


def split_by_patterns(shards: Sequence[str], patterns: Sequence[tuple[str, str]]) -> PlannedSplit:
    """Assign to each part the shards that its patterns match.

    The syntax of patterns is described in :mod:`~loader.format.documents.brace_patterns`.

    Args:
        shards: Shards of the dataset, in order.
        patterns: Pairs (part, pattern); a part may have several.

    Returns:
        The parts in the order of their first pattern, their shards in the dataset's order, and warnings about shards
        in several parts or in none.

    Raises:
        ConfigError: Some patterns are not a valid regex, cannot be expanded or match no shard; it names all of them.

    >>> split_by_patterns(["train/0.tar", "val/0.tar"], [("train", "train/"), ("val", "glob:val/*")]).parts
    {'train': ('train/0.tar',), 'val': ('val/0.tar',)}
    """
    ordered = sorted(set(shards))
    matched: dict[str, set[str]] = {}
    faults: list[Fault] = []
    # Match each pattern, and collect the faults of all patterns.
    for name, pattern in patterns:
        given = f"{name}:{pattern}"
        matches: set[str] = set()
        try:
            matches = match_names(pattern, ordered)
            if not matches:
                faults.append(Fault(place=given, message=f"this matches no shard; {_similar_names(pattern, shards)}"))
        except ConfigError as error:
            faults.append(Fault(place=given, message=f"{error.message}; {error.hint}" if error.hint else error.message))
        except (re.error, OverflowError, RecursionError) as error:
            faults.append(Fault(place=given, message=f"this is not a regex: {error}"))
        matched.setdefault(name, set()).update(matches)
    if faults:
        raise ConfigError(
            faults=faults,
            hint="write a regex that matches from the start of the shard's name, or a glob: NAME:glob:…",
        )
    # Restore the order of the dataset, which sets do not keep.
    parts = {name: tuple(shard for shard in shards if shard in matches) for name, matches in matched.items()}
    return PlannedSplit(parts=parts, warnings=tuple(_overlaps(shards, matched)))


def _overlaps(shards: Sequence[str], matched: Mapping[str, set[str]]) -> Iterator[str]:
    shared: dict[tuple[str, ...], list[str]] = {}
    for shard in shards:
        names = tuple(name for name, some in matched.items() if shard in some)
        if len(names) != 1:
            shared.setdefault(names, []).append(shard)
    for names, some in shared.items():
        which = f"{some[0]!r}" if len(some) == 1 else f"{some[0]!r} and {len(some) - 1:,} more"
        if names:
            yield f"parts {' and '.join(map(repr, names))} overlap: each holds {which}"
        else:
            yield f"{plural(len(some), 'shard')} in no part: {which}"


def _similar_names(pattern: str, shards: Sequence[str]) -> str:
    plain = pattern.removeprefix("glob:")
    # The comparison is slow, and a thousand names show the naming scheme.
    similar = difflib.get_close_matches(plain, shards[:1000], n=3, cutoff=0.3) or list(shards[:3])
    return f"shards are called {', '.join(map(repr, similar))}" if similar else "there are no shards"


# -------------------------------------------------------------------------------------------------------- the plan


def plan_split(storage: Storage, request: SplitRequest | None, shards: Sequence[str]) -> PlannedSplit:
    """Split the shards of a dataset as requested; without a request, keep the split of its ``split.yaml``."""
    if request is None:
        return _kept_split(read_split_config(storage), shards)
    ratio = request.ratio or {}
    ranges: dict[str, SubsetRange] = {}
    if request.parts is not None:
        result = PlannedSplit(parts=dict(request.parts))
    elif request.patterns is not None:
        result = split_by_patterns(shards, request.patterns)
    elif request.by_samples:  # a part with a share of 0 has no shard
        ranges = ranges_by_ratio(ratio)
        result = PlannedSplit(parts={name: tuple(shards) if name in ranges else () for name in ratio})
    else:
        result = split_by_ratio(shards, ratio, shuffle_seed=request.shuffle_seed)
    config = SplitConfig(split_parts=result.parts, exclude=_kept_excludes(storage, shards), sample_ranges=ranges)
    return replace(result, text=format_split_config(config), ranges=ranges)


def rename_excluded(storage: Storage, split: PlannedSplit, renamed: Mapping[str, Mapping[str, str]]) -> PlannedSplit:
    """Rename the samples that a split excludes, after their keys were renamed.

    Args:
        renamed: Shard → {old key: new key}.
    """
    config = parse_split_config(split.text, file=SPLIT_YAML) if split.text else read_split_config(storage)
    if config is None:
        return split
    known = frozenset(renamed)

    def new_name(name: str) -> str:
        shard, key = split_sample_name(name, known)
        return f"{shard}/{renamed[shard].get(key, key)}" if key is not None and shard in known else name

    exclude = tuple(map(new_name, config.exclude))
    if exclude == config.exclude:
        return split
    return replace(split, text=format_split_config(replace(config, exclude=exclude)))


def _kept_split(config: SplitConfig | None, shards: Sequence[str]) -> PlannedSplit:
    if config is None:
        return PlannedSplit(parts={}, text=None, warnings=("the dataset has no split.yaml, and no split was given",))
    warnings = []
    # Compare the shards of the split with the shards on disk.
    used = {shard for names in config.split_parts.values() for shard in names}
    used_or_excluded = used | config.excluded_shards()
    unused = [shard for shard in shards if shard not in used_or_excluded]
    gone = sorted(used.difference(shards))
    if unused:
        warnings.append(
            f"{plural(len(unused), 'shard is', 'shards are')} in no part of split.yaml, first {unused[0]}"
            " (--split-ratio or --split-parts makes a new split)"
        )
    if gone:
        warnings.append(
            f"split.yaml names {plural(len(gone), 'shard that does', 'shards that do')} not exist, first {gone[0]}"
            " (--split-ratio or --split-parts makes a new split)"
        )
    return PlannedSplit(
        parts=config.split_parts,
        text=None,
        warnings=tuple(warnings),
        ranges=config.sample_ranges,
        filters=config.sample_filters,
    )


def _kept_excludes(storage: Storage, shards: Sequence[str]) -> tuple[str, ...]:
    """Return the excluded names of the earlier split for existing shards: a new split does not fix broken samples."""
    try:
        earlier = read_split_config(storage)
    except EnergonError:
        return ()  # the file is replaced
    known = frozenset(shards)
    return tuple(name for name in (earlier.exclude if earlier else ()) if split_sample_name(name, known)[0] in known)
