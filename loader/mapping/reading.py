"""Read samples by their numbers in the index; a sample that cannot be read is a failure of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from ..arrays import IntArray
from ..dataset.unprepared.tar_index import with_index
from ..errors import ConfigError, EnergonError, MissingPackageError, StorageError
from ..format.data_kind import is_tar_file
from ..format.dataset_ref import DatasetRef
from ..format.documents.providers import ALL_PARTS, LoadRequest
from ..pipeline.reading.dataset_source import DatasetSource
from ..pipeline.reading.sample_chunk import SampleChunk
from ..pipeline.reading.samples import Samples
from .user_call import call_user


def whole_dataset(ref: DatasetRef) -> DatasetSource:
    """Return a prepared dataset with all its samples, whatever their split part, decoded as in training.

    Raises:
        ConfigError: It is a metadataset or a single file, which has no columns and no split.
    """
    if ref.kind.format != "folder" or is_tar_file(ref.path):
        raise ConfigError("expected the folder of a prepared dataset", at=ref.path, hint="name a folder of shards")
    return DatasetSource(request=LoadRequest(ref=ref.resolved(), split_part=ALL_PARTS))


@contextmanager
def shown_dataset(ref: DatasetRef) -> Iterator[DatasetSource]:
    """Open a dataset for a trial, which writes nothing: a single file is one, too.

    Tar shards that are not prepared are indexed in a temporary folder until the block ends.

    Raises:
        ConfigError: It is a metadataset.
    """
    with ExitStack() as stack:
        yield DatasetSource(
            request=LoadRequest(ref=DatasetRef.of(with_index(ref, stack)).resolved(), split_part=ALL_PARTS)
        )


class SampleReader(Samples[Any]):
    """The samples of one dataset, by number in its index; pickles without open files.

    Args:
        source: The dataset, and how its samples are built.
        raw: Samples are dictionaries of the bytes of their parts, and nothing is decoded.
    """

    def __init__(self, source: DatasetSource, *, raw: bool = False) -> None:
        super().__init__([source])
        self.source = source
        self._raw = raw

    def index_of(self, position: int) -> tuple[int, int]:
        return 0, position

    def _chunk(self, positions: IntArray) -> SampleChunk:
        return SampleChunk([self.source], self._pool.shards, np.zeros_like(positions), positions, sparse={0})

    def read(self, numbers: IntArray) -> Iterator[tuple[int, Any]]:
        """Yield each number with its sample, or with the error of a sample that cannot be read; in order.

        Samples that the code of the dataset skips are ``SkipSample`` errors.

        Raises:
            StorageError: The files cannot be reached, which is no fault of a sample.
            MissingPackageError: A package that decodes the samples is missing, which is none, either.
        """
        done = 0
        try:
            for raw, position in self.stream(numbers):
                yield position, self._built(raw)
                done += 1
            return
        except (StorageError, MissingPackageError):
            raise
        except EnergonError:
            pass  # bytes that cannot be read: find out of which samples
        for sample_index in numbers[done:].tolist():
            try:
                raw = self.read_one(sample_index)
            except StorageError:
                raise
            except EnergonError as error:
                yield sample_index, error
            else:
                yield sample_index, self._built(raw)

    def _built(self, raw: Any) -> Any:
        recipe = self.source.recipe
        try:
            return recipe.named(raw) if self._raw else call_user(recipe.build, raw, ())
        except MissingPackageError:
            raise
        except Exception as error:  # noqa: BLE001 - code of the dataset, or of a decoder
            return error
