"""Read samples by their numbers in the index; a sample that cannot be read is a failure of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ..arrays import IntArray
from ..dataset.unprepared.tar_index import index_temporarily
from ..errors import ConfigError, EnergonError, StorageError
from ..format.dataset_ref import DatasetRef
from ..format.documents.providers import ALL_PARTS, LoadRequest, is_metadataset, is_record_file, is_tar_file
from ..pipeline.reading.dataset_source import DatasetSource
from ..pipeline.reading.samples import Samples
from .user_call import call_user


def whole_dataset(ref: DatasetRef) -> DatasetSource:
    """Return a prepared dataset with all its samples, whatever their split part, decoded as in training.

    Raises:
        ConfigError: It is a metadataset or a single file, which has no columns and no split.
    """
    if is_metadataset(ref.path) or is_record_file(ref.path) or is_tar_file(ref.path):
        raise ConfigError("expected the folder of a prepared dataset", at=ref.path, hint="name a folder of shards")
    return DatasetSource(request=LoadRequest.at(ref, split_part=ALL_PARTS))


@contextmanager
def shown_dataset(ref: DatasetRef) -> Iterator[DatasetSource]:
    """Open a dataset for a trial, which writes nothing: a single file is one, too.

    Tar shards that are not prepared are indexed in a temporary folder until the block ends.

    Raises:
        ConfigError: It is a metadataset.
    """
    with ExitStack() as stack:
        indexed = None if is_record_file(ref.path) else index_temporarily(ref, stack)
        if indexed is None and not is_record_file(ref.path):
            yield whole_dataset(ref)
        else:
            yield DatasetSource(request=LoadRequest.at(indexed or ref, split_part=ALL_PARTS))


class SampleReader(Samples[Any]):
    """The samples of one dataset, by number; pickles without open files.

    Args:
        source: The dataset, and how its samples are built.
        raw: Samples are dictionaries of the bytes of their parts, and nothing is decoded.
    """

    def __init__(self, source: DatasetSource, *, raw: bool = False) -> None:
        super().__init__([source])
        self.source = source
        self._raw = raw

    def read(self, numbers: IntArray) -> Iterator[tuple[int, Any]]:
        """Yield each number with its sample, or with the error of a sample that cannot be read; in order.

        Samples that the code of the dataset skips are ``SkipSample`` errors.

        Raises:
            StorageError: The files cannot be reached, which is no fault of a sample.
        """
        done = 0
        try:
            for raw, position in self.stream(numbers, lambda some: some):
                yield position, self._built(raw)
                done += 1
            return
        except StorageError:
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
        except Exception as error:  # noqa: BLE001 - code of the dataset, or of a decoder
            return error
