"""Join indexes of megatron-energon: ``meta.yaml.cache/join_index_<hash>.bin``.

After the magic bytes and the number of members come the rows. A row has three 64-bit integers for each member: position
of the shard in the split part, offset of the sample in the shard, and its size in bytes; -1 three times for no sample.
The hash covers the uuids of the members' indexes, what they exclude, and their ``nonmatch``, but not their split parts,
and a failed prepare leaves a file with some of the rows. So rows are checked before they are used.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray, numbers_in
from ...dataset.dataset import Dataset
from ...dataset.split_parts import excluded_samples, samples_of_part
from ...dataset.tar import tar_index
from ...errors import StorageError
from ...format.documents.dataset_files import read_split_config
from ...format.tar.header import read_tar_idx
from ...storage import open_storage
from ..documents.leaf_plan import JoinMember, JoinPlan

_MAGIC = b"JIDX0001"
_HEADER_BYTES = len(_MAGIC) + 8
_PLACE = 3  # integers
_SHARD_BITS = 43  # a shard has less than 8 TiB


def read_peer_rows(plan: JoinPlan, folders: Sequence[Dataset]) -> IntArray | None:
    """Return the rows of a join that megatron-energon has prepared, in the order of the primary's samples.

    Returns:
        Shape (rows, members), as :func:`.open_join`; None if there is no such file, or if it is not valid for the
        data: a row names no sample of the split part, joins two keys, or a row is missing.
    """
    storage, name = open_storage(os.path.dirname(plan.file)), _file_name(plan, folders)
    if name is None or not storage.exists(name):
        return None
    # Read the file, and check its header and size.
    width = 8 * _PLACE * len(folders)
    data = storage.read(name)
    if data[:_HEADER_BYTES] != _header(len(folders)) or (len(data) - _HEADER_BYTES) % width:
        return None
    places = np.frombuffer(data, "<i8", offset=_HEADER_BYTES).reshape(-1, len(folders), _PLACE)
    # Translate places in shards to numbers of samples.
    columns = [_Places.of(folder, member) for folder, member in zip(folders, plan.members, strict=True)]
    located = [None if each is None else each.numbers(places[:, index]) for index, each in enumerate(columns)]
    numbers = [column for column in located if column is not None]
    if len(numbers) < len(folders):
        return None
    # Sort the rows by the order of the primary's samples, and check them.
    rows = np.stack(numbers, axis=1)
    order = np.argsort(_rank(rows[:, 0], folders[0], plan.members[0]), kind="stable")
    return rows[order] if _is_valid(rows[order], plan, folders) else None


def write_peer_rows(plan: JoinPlan, folders: Sequence[Dataset], rows: IntArray) -> str | None:
    """Write the rows of a join as megatron-energon reads them.

    Returns:
        Path of the file; None if the file cannot express the join: a dataset excludes several samples, or has shards
        whose samples have no known offsets.
    """
    storage, name = open_storage(os.path.dirname(plan.file)), _file_name(plan, folders)
    places = np.full((len(rows), len(folders), _PLACE), -1, "<i8")
    for position, (folder, member) in enumerate(zip(folders, plan.members, strict=True)):
        column = _Places.of(folder, member)
        if name is None or column is None:
            return None
        # Rows without a sample of this member keep -1.
        has_sample = rows[:, position] >= 0
        places[has_sample, position] = column.of_samples(rows[has_sample, position])
    if name is None:
        return None
    with storage.create(name) as file:
        file.write(_header(len(folders)))
        file.write(places.data)
    return storage.path(name)


def remove_other_peer_rows(file: str, kept: Sequence[str | None]) -> None:
    """Remove the files of earlier states of a metadataset; none if a join has no such file, which may be one of them.

    Args:
        file: Path of the metadataset.
        kept: Paths of the files that its joins have; None for a join without one.
    """
    storage, folder = open_storage(os.path.dirname(file)), _cache_folder(file)
    if None not in kept and storage.exists(folder) and not os.path.islink(storage.path(folder)):
        for entry in storage.list(folder):
            if entry.name.startswith(f"{folder}/join_index_") and storage.path(entry.name) not in kept:
                storage.remove(entry.name)


def _cache_folder(file: str) -> str:
    return f"{os.path.basename(file)}.cache"


def _header(members: int) -> bytes:
    return _MAGIC + members.to_bytes(8, "little")


def _file_name(plan: JoinPlan, folders: Sequence[Dataset]) -> str | None:
    """Return the file's name; None if a dataset excludes several names, whose order in the hash is not defined."""
    text = ""
    for folder, member in zip(folders, plan.members, strict=True):
        split = read_split_config(folder.storage, member.ref.split_file)  # names as written
        excluded = [name for name in split.exclude if "/" in name] if split else []
        if len(excluded) > 1 or (split and (split.sample_ranges or split.sample_filters)):
            return None
        names = "".join(name + "\0" for name in excluded)
        text += f"\0uuid={tar_index(folder).uuid}\0excludes={names}\0nonmatch={member.nonmatch}\0"
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{_cache_folder(plan.file)}/join_index_{digest}.bin"


@dataclass(frozen=True, kw_only=True)
class _Places:
    """The samples of a split part: their numbers in the index, and their places in the order of places.

    Attributes:
        places: Shape (n, 3).
        samples: Their numbers, shape (n,).
    """

    places: IntArray
    samples: IntArray

    @classmethod
    def of(cls, folder: Dataset, member: JoinMember) -> _Places | None:
        shards = {shard.name: shard for shard in tar_index(folder).shards}
        places, samples = [np.empty((0, _PLACE), np.int64)], [np.empty(0, np.int64)]
        part = folder.documents.loaded_part(member.split_part)
        for position, name in enumerate(folder.documents.split.split_parts[part] if folder.documents.split else ()):
            shard = shards.get(name)
            if shard is None:
                return None
            numbers = tar_index(folder).samples_of(shard)
            # The offsets are in the index of the shard, or else in its `.tar.idx` file.
            offsets: IntArray | None = tar_index(folder).shard_index(shard).sample_offsets
            if offsets is None or len(offsets) != len(numbers) + 1:
                offsets = read_tar_idx(folder.storage, name, samples=len(numbers), shard_size=shard.size_bytes)
            if offsets is None:
                return None
            columns = [np.full(len(numbers), position, np.int64), offsets[:-1], np.diff(offsets)]
            places.append(np.stack(columns, axis=1))
            samples.append(np.arange(numbers.start, numbers.stop))
        return cls(places=np.concatenate(places), samples=np.concatenate(samples))

    def numbers(self, places: IntArray) -> IntArray | None:
        """Return the number of the sample at each place of shape (rows, 3); -1 where a row has no such member.

        The result is None if another place has no sample.
        """
        known, wanted = _packed(self.places), _packed(places)
        # Look up shard and offset, and compare the size afterwards.
        row = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
        has_none = (places == -1).all(axis=1)
        if not len(known) or not ((self.places[row] == places).all(axis=1) | has_none).all():
            return None if len(places) else np.empty(0, np.int64)
        return np.where(has_none, -1, self.samples[row])

    def of_samples(self, numbers: IntArray) -> IntArray:
        order = np.argsort(self.samples)
        return self.places[order[np.searchsorted(self.samples, numbers, sorter=order)]]


def _packed(places: IntArray) -> IntArray:
    return (places[:, 0] << _SHARD_BITS) + places[:, 1]


def _included(folder: Dataset, member: JoinMember) -> IntArray:
    samples = numbers_in(samples_of_part(folder, folder.documents.loaded_part(member.split_part)))
    return samples[~np.isin(samples, excluded_samples(folder))]


def _rank(numbers: IntArray, folder: Dataset, member: JoinMember) -> IntArray:
    """Return the place of each sample in the order of the split part; excluded ones come last."""
    included = _included(folder, member)
    order = np.argsort(included)
    row = np.minimum(np.searchsorted(included, numbers, sorter=order), max(len(included) - 1, 0))
    if not len(included):
        return np.zeros(len(numbers), np.int64)
    return np.where(included[order[row]] == numbers, order[row], len(included))


def _is_valid(rows: IntArray, plan: JoinPlan, folders: Sequence[Dataset]) -> bool:
    hashes = [_key_hashes(folder) for folder in folders]
    included = [_included(folder, member) for folder, member in zip(folders, plan.members, strict=True)]
    may_lack_rows = np.zeros(len(included[0]), bool)
    for position, member in enumerate(plan.members):
        # The samples of a member are in its split part, and have the primary's keys.
        has = rows[:, position] >= 0
        if not np.isin(rows[has, position], included[position]).all():
            return False
        if not np.array_equal(hashes[position][rows[has, position]], hashes[0][rows[has, 0]]):
            return False
        # Only a key that the member lacks may have no sample or no row.
        lacks = ~np.isin(hashes[0][included[0]], hashes[position][included[position]])
        if member.nonmatch == "skip":
            may_lack_rows |= lacks
        without_sample = np.isin(included[0], rows[~has, 0])
        if (without_sample & ~lacks).any() or (member.nonmatch != "none" and without_sample.any()):
            return False
    return np.array_equal(rows[:, 0], included[0][~may_lack_rows])


def _key_hashes(folder: Dataset) -> npt.NDArray[np.uint64]:
    index = tar_index(folder)
    hashes = np.empty(len(index), np.uint64)
    numbers = np.asarray(index.key_sample).astype(np.int64)
    if len(numbers) != len(index) or (numbers >= len(index)).any():
        raise StorageError("the index of this dataset is damaged", path=folder.path, hint="prepare it again")
    hashes[numbers] = index.key_hash
    return hashes
