"""Write the first samples of an import to a temporary folder, so that all that inspects shards can show them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from ...errors import ConfigError, EnergonError
from ...storage import LocalStorage
from ...storage.scratch_folder import scratch_folder
from ..writing.shard_file import ShardFile
from .contents import ContentReader
from .listing import ListedRows
from .pictures import PictureOptions
from .sample_contents import StrayCoordinatesError, read_sample

TRIAL_SHARD = "first samples"
_MAX_SAMPLES = 100
_MAX_TRIED = 10_000  # rows, until one can be read
_MAX_BYTES = 64 * 1024 * 1024


@contextmanager
def write_trial(listed: ListedRows, pictures: PictureOptions) -> Iterator[str]:
    """Write the first samples to a shard in a temporary folder, and return the folder; rows that fail are skipped.

    Args:
        listed: The samples.
        pictures: Settings for pictures.

    Raises:
        StrayCoordinatesError: Coordinates of one of the first rows would no longer fit their picture.
        ConfigError: None of the first rows can be read.
    """
    fault: EnergonError | None = None
    origin = ""
    with scratch_folder() as folder:
        storage = LocalStorage(folder)
        with (
            storage.create("first_samples.tar", durable=False) as file,
            closing(ContentReader(listed.sources)) as reader,
        ):
            shard = ShardFile(file)
            for number in range(min(len(listed.rows), _MAX_TRIED)):
                if number >= _MAX_SAMPLES and shard.samples:
                    break
                row = listed.rows[number]
                if shard.samples and max(0, row.size_bytes) + shard.size_bytes > _MAX_BYTES:
                    break
                try:
                    parts = read_sample(reader, row, pictures).parts
                except StrayCoordinatesError as error:
                    raise StrayCoordinatesError(error.message, at=row.origin, hint=error.hint) from error
                except EnergonError as error:
                    if fault is None:
                        fault, origin = error, row.origin
                    reader.release()
                    continue
                shard.write(listed.rows.key(number, row.key), parts)
                reader.release()
            if not shard.samples and fault is not None:
                raise ConfigError(
                    f"none of the first {number + 1:,} samples can be read; {origin}: {fault.message}",
                    at=fault.at,
                    hint=fault.hint,
                ) from fault
            shard.finish()
        yield folder
