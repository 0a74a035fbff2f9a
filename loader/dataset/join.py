"""Datasets that are joined row by row."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ..arrays import IntArray
from ..errors import FormatError
from .dataset import Dataset, Member, PartPlace


class JoinedDataset:
    """Rows of samples, one of each member. The names of parts are ``<member>/<part>``.

    Args:
        members: The datasets; the first has a sample in each row.
        names: Names of the members; None to number them.
        rows: Numbers of the samples in their members' indexes, shape (rows, members); -1 for a missing sample.
    """

    def __init__(
        self, members: tuple[Dataset, ...], names: tuple[str, ...] | None, rows: IntArray, *, file: str, place: str
    ) -> None:
        self.members = members
        self.names = names or tuple(map(str, range(len(members))))
        self.rows = rows
        self.path = f"{file}: {place}"
        self._file = file

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def part_names(self) -> list[str]:
        pairs = zip(self.names, self.members, strict=True)
        return [f"{name}/{part}" for name, member in pairs for part in member.index.part_names]

    @property
    def sample_bytes(self) -> int:
        return sum(member.sample_bytes for member in self.members)

    def numbers(self, rows: IntArray) -> IntArray:
        """Return the sample numbers of some rows in their members' indexes, shape (rows, members); -1 for none."""
        numbers = np.asarray(self.rows[rows])
        if (numbers[:, 0] < 0).any() or (numbers >= [len(member) for member in self.members]).any():
            raise FormatError(
                "the prepared rows of this join name samples that do not exist",
                at=self.path,
                hint=f"run: energon prepare {self._file}",
            )
        return numbers

    def with_first(self, numbers: IntArray) -> IntArray:
        """Return the rows whose first sample has one of some numbers, ascending."""
        return np.flatnonzero(np.isin(self.rows[:, 0], numbers))

    def members_of(self, sample: int) -> list[Member]:
        numbers = self.numbers(np.array([sample]))[0].tolist()
        rows = zip(self.names, self.members, numbers, strict=True)
        return [Member(f"{name}/", member, member_sample) for name, member, member_sample in rows if member_sample >= 0]

    def parts(self, sample: int) -> list[PartPlace]:
        return [
            part._replace(name=f"{prefix}{part.name}")
            for prefix, member, member_sample in self.members_of(sample)
            for part in member.parts(member_sample)
        ]

    def read(self, sample: int, part: str, start: int = 0, stop: int | None = None) -> bytes:
        for prefix, member, member_sample in self.members_of(sample):
            if part.startswith(prefix):
                return member.read(member_sample, part.removeprefix(prefix), start, stop)
        raise KeyError(part)

    def read_parts(
        self, sample: int, names: Collection[str] | None = None, *, max_json_bytes: int | None = None
    ) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        for prefix, member, member_sample in self.members_of(sample):
            member_names = names and [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
            read = member.read_parts(member_sample, member_names, max_json_bytes=max_json_bytes)
            parts |= {f"{prefix}{name}": value for name, value in read.items()}
        return parts

    def full_key(self, sample: int) -> str:
        return self.members[0].full_key(int(self.rows[sample][0]))

    def find(self, key: str) -> list[int]:
        """Return the rows whose first sample has a key, ascending."""
        rows: list[int] = self.with_first(np.array(self.members[0].index.find(key), np.int64)).tolist()
        return rows

    def place_of(self, sample: int) -> str:
        return " with ".join(member.place_of(member_sample) for _, member, member_sample in self.members_of(sample))

    def close(self) -> None:
        for member in self.members:
            member.close()


AnyDataset = Dataset | JoinedDataset
"""Samples by number, each with named parts."""
