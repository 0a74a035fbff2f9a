"""Tasks of a lint for worker processes: check the headers of a shard, or decode some of its samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...cached_property import cached_property
from ...errors import ConfigError, EnergonError, FormatError
from ...storage import ReadableFile
from ..dataset_folder import DatasetFolder
from ..documents.dataset_config import DatasetConfig
from ..index.dataset_index import PartLocation
from ..index.layout import ShardEntry
from ..index.sample_bytes import read_sample
from .report import Finding, LintPlan, SampleCheck
from .shard import check_shard, required_parts

__all__ = ["LintChecker", "LintTask"]


@dataclass(frozen=True, slots=True)
class LintTask:
    """A check of all headers of a shard, or of a range of samples, which are decoded."""

    shard: ShardEntry
    samples: range | None = None

    def __str__(self) -> str:
        return self.shard.name if self.samples is None else f"{self.shard.name}, samples {self.samples}"


class LintChecker:
    """Runs tasks in a worker process; picklable.

    Args:
        plan: The plan of the lint.
        check: The check of samples; None checks headers only.
        config: The parsed ``dataset.yaml``; None if it is missing or invalid.
        sqlite_numbers: Shard → its number in ``index.sqlite``; empty if that file is missing or unreadable.
    """

    def __init__(
        self,
        plan: LintPlan,
        check: SampleCheck | None,
        config: DatasetConfig | None,
        sqlite_numbers: Mapping[str, int],
    ) -> None:
        self._plan = plan
        self._check = check
        self._config = config
        self._sqlite_numbers = sqlite_numbers
        self._required = frozenset(part for parts in required_parts(config).values() for part in parts)

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker opens the dataset itself.
        return {name: value for name, value in self.__dict__.items() if name not in ("_dataset", "_excluded")}

    @cached_property
    def _dataset(self) -> DatasetFolder:
        plan = self._plan
        return DatasetFolder(plan.path, split_config=plan.split_config, dataset_config=plan.dataset_config)

    @cached_property
    def _excluded(self) -> Mapping[str, frozenset[str]]:
        try:
            return self._dataset.split.excluded_samples() if self._dataset.split else {}
        except ConfigError:
            return {}

    def __call__(self, task: LintTask) -> list[Finding]:
        excluded = self._excluded.get(task.shard.name, frozenset())
        if task.samples is not None:
            return list(self._decode(task.shard, task.samples, excluded))
        found = check_shard(
            self._dataset.storage,
            self._dataset.tar_index,
            task.shard,
            self._config,
            read_bytes=self._plan.level == "bytes",
            sqlite_number=self._sqlite_numbers.get(task.shard.name),
        )
        return [finding for finding in found if not (finding.is_sample and finding.key in excluded)]

    def _decode(self, shard: ShardEntry, samples: range, excluded: frozenset[str]) -> Iterator[Finding]:
        try:
            file = self._dataset.storage.open(shard.name)
        except EnergonError as error:
            yield Finding(code="E109", message=error.message, shard=shard.name)
            return
        with file:
            for sample in samples:
                key = self._dataset.index.key(sample)
                if key not in excluded:
                    yield from self._decode_one(file, shard.name, key, self._dataset.tar_index.parts(sample))

    def _decode_one(self, file: ReadableFile, shard: str, key: str, locations: list[PartLocation]) -> Iterator[Finding]:
        try:
            parts = read_sample(file, locations, shard=shard)
        except FormatError as error:
            yield Finding(code="E104", message=error.message, shard=shard, key=key, offset=error.offset)
            return
        except EnergonError as error:
            yield Finding(code="E109", message=error.message, shard=shard, key=key, offset=locations[0].offset)
            return
        try:
            faults = self._check(key, parts) if self._check else ()
        except Exception as error:  # noqa: BLE001 - one sample must not hide the faults of all others
            faults = [(None, f"the check of this sample failed: {type(error).__name__}: {error}")]
        if faults:
            yield from self._findings_of(shard, key, locations, faults)

    def _findings_of(
        self, shard: str, key: str, locations: list[PartLocation], faults: Sequence[tuple[str | None, str]]
    ) -> Iterator[Finding]:
        by_name = {part.name: part for part in locations}
        for part, message in faults:
            location = by_name.get(part or "")
            if location is not None and location.size_bytes == 0:
                continue  # reported as E303 or W308 with the headers
            code = "E302"
            if location is None:
                if part in self._required:
                    continue  # reported with the headers
                code = "E307" if part is None else "E301"
            offset = (location or locations[0]).offset
            yield Finding(code=code, message=message, shard=shard, key=key, part=part, offset=offset)
