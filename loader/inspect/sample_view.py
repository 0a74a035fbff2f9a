"""Describe the samples of a preview: as training gets them, or as raw parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from ..cached_property import cached_property
from ..dataset.dataset import Dataset
from ..dataset.records import as_bytes, is_media_value
from ..dataset.split_parts import is_excluded
from ..errors import EnergonError, TrustError, error_text
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_config import DatasetConfig, is_own_module
from ..format.nv_meta import FOLDER
from ..format.records.folder_index import RecordIndex
from ..parts.kinds import TORCH
from ..parts.large_parts import SHOWN_JSON_BYTES
from ..storage import EPath
from .fields import FieldView, describe_part, describe_value

if TYPE_CHECKING:
    from ..samples.building.sample_builder import SampleBuilder
    from ..samples.decoding.decoder import SampleDecoder


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleView:
    """A sample to show.

    Attributes:
        title: The key and position of the sample.
        fields: Its fields, or its raw parts.
        fault: Why the sample could not be built.
        note: A remark on the whole sample.
        origin: The dataset that the sample is from, if there are several.
        bare_key: The key of the sample, without its shard.
        shard: The shard or file that contains it.
        index: Its place, counted from 0, if nothing is shuffled; None if unknown.
        excluded: The split excludes it.
        key: The name by which ``split.yaml`` can exclude the sample, if it can.
    """

    title: str
    fields: Sequence[FieldView]
    fault: str | None = None
    note: str | None = None
    origin: str | None = None
    bare_key: str | None = None
    shard: str | None = None
    index: int | None = None
    excluded: bool = False
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewRequest:
    """The samples to view, and how.

    Attributes:
        ref: A dataset, file of samples, folder of media files, metadataset, or tar files that are not prepared. A split
            file or dataset file replaces those that a metadataset names; ``trust_code`` runs code of the data.
        split_parts: Only these split parts, or splits of a metadataset.
        key: Only the samples with this key.
        seed: Shuffles; None keeps the order.
        crude: View raw parts, even if ``dataset.yaml`` names a sample type.
        on_decode: Called before the first sample of a dataset is decoded, which may take seconds.
        reach: Number of samples, from the first, that will be viewed: tar files that are not prepared are scanned as
            far as this.
        workers: Number of worker processes to scan such files with, if all of them are needed.
        on_progress: Called during such a scan with the numbers of scanned shards and of all shards.
        on_note: Called with one line about what was scanned, or skipped.
        max_json_bytes: Larger JSON parts are neither read nor parsed; None for no limit.
    """

    ref: DatasetRef
    split_parts: tuple[str, ...] | None = None
    key: str | None = None
    seed: int | None = None
    crude: bool = False
    on_decode: Callable[[], None] | None = None
    reach: int = 1
    workers: int = 1
    on_progress: Callable[[int, int], None] | None = None
    on_note: Callable[[str], None] | None = None
    max_json_bytes: int | None = SHOWN_JSON_BYTES


class Viewer:
    """Describes samples of one dataset: as training gets them, or as raw parts if they are crude or cannot be built.

    Args:
        request: The ``trust_code`` of its reference decides if code of the dataset may run.
    """

    def __init__(self, dataset: Dataset, request: PreviewRequest) -> None:
        self.dataset = dataset
        self._request = request
        config = dataset.documents.config
        self._shows_parts = request.crude or config is None or config.crude
        # Importing what builds samples takes long, so crude samples do without it.
        if not self._shows_parts:
            _ = self._builder

    @cached_property
    def _builder(self) -> SampleBuilder | TrustError:
        if self._request.on_decode is not None:
            self._request.on_decode()
        from ..samples.building.dataset_code import DatasetCode
        from ..samples.building.sample_builder import SampleBuilder

        dataset, config = self.dataset, self.dataset.documents.config
        try:
            return SampleBuilder(
                config,
                DatasetCode(dataset.storage.path(FOLDER), self._request.ref.trust_code),
                dataset_path=EPath(dataset.storage.path("")),
                decoder=None if dataset.holds_values else view_decoder(config),
            )
        except TrustError as error:
            return error  # code that may not run is reported with each sample

    def read(self, sample_number: int) -> dict[str, Any]:
        """Read the parts of a sample."""
        return self.dataset.read_parts(sample_number, max_json_bytes=self._request.max_json_bytes)

    def build(self, parts: Mapping[str, Any], sample_number: int) -> Any:
        """Build a sample of its parts; a crude one, too."""
        from ..samples.decoding.media_values import decode_media

        builder, config = self._builder, self.dataset.documents.config
        if isinstance(builder, TrustError):
            raise builder
        # A field map decodes only the parts it needs, and its errors name the others.
        if config is None or config.field_map is None:
            parts = {name: data for name, data in parts.items() if builder.part_filter(name)}
        index = self.dataset.index
        if isinstance(index, RecordIndex) and index.media_of(sample_number):
            parts = decode_media(parts, index.media_of(sample_number), view_decoder(config).decode_part)
        return builder.build(parts, key=index.full_key(sample_number))

    def view(self, sample_number: int, title: str) -> SampleView:
        """Read one sample and describe it.

        Args:
            title: The sample's position, shown after its key.
        """
        # Describe the sample by its key.
        dataset = self.dataset
        key = dataset.index.full_key(sample_number)
        excluded = _is_excluded(dataset, sample_number)
        view = SampleView(
            title=f"{key}   {title}{', excluded' if excluded else ''}",
            fields=(),
            key=key,
            bare_key=dataset.index.key(sample_number),
            shard=dataset.index.shard_of(sample_number).name,
            excluded=excluded,
        )
        # Read its parts, and build it.
        try:
            parts = self.read(sample_number)
        except EnergonError as error:
            return replace(view, fault=str(error))
        if self._shows_parts:
            return replace(view, fields=describe_parts(parts))
        try:
            sample = self.build(parts, sample_number)
        except Exception as error:  # noqa: BLE001 - the dataset's own code may raise anything
            return replace(view, fields=describe_parts(parts), **reason_of(error, shown="shown as parts"))
        return replace(view, fields=describe_sample(sample))


def view_decoder(config: DatasetConfig | None) -> SampleDecoder:
    """Return the decoder for samples that are only shown, whose pictures fit in a gigabyte and a half.

    Importing torch takes longer than all the rest; code that comes with a dataset gets the tensors that it expects, and
    values inside of a part that only torch decodes need it, too.
    """
    from ..samples.decoding.decoder import ArrayDecoder, SampleDecoder
    from ..samples.picture import most_shown_pixels

    max_pixels = most_shown_pixels()
    field_map = None if config is None or not is_own_module(config.module) else config.field_map
    shows = field_map is not None and not field_map.looks_inside(TORCH)
    return ArrayDecoder(max_pixels=max_pixels) if shows else SampleDecoder(max_pixels=max_pixels)


def describe_parts(parts: Mapping[str, Any]) -> tuple[FieldView, ...]:
    """Describe the raw parts of a sample; parts that are values, as in Parquet files, by their type."""
    return tuple(
        describe_part(name, as_bytes(data))
        if isinstance(data, bytes) or is_media_value(data)
        else describe_value(name, data)
        for name, data in parts.items()
    )


def describe_sample(sample: Any) -> tuple[FieldView, ...]:
    """Describe the fields of a typed sample, or the values of a crude one, without bookkeeping (``__key__`` …)."""
    if isinstance(sample, Mapping):
        values: dict[str, Any] = dict(sample)
    elif is_dataclass(sample):
        values = {each.name: getattr(sample, each.name, None) for each in fields(sample)}
    else:
        values = dict(vars(sample))
    return tuple(describe_value(name, value) for name, value in values.items() if not name.startswith("__"))


def place_of(position: int, count: int) -> str:
    """Format the position of a sample, counted from 0.

    >>> place_of(0, 1200)
    'sample 0 of 1,200'
    """
    return f"sample {position:,} of {count:,}"


def reason_of(error: Exception, *, shown: str, before: str = "") -> dict[str, Any]:
    """Return why a sample is not shown as it is built: the ``note`` if its code may not run, else the ``fault``."""
    if isinstance(error, TrustError):
        at = f"\n  at: {error.at}" if error.at else ""
        hint = "\n  hint: read it; if you trust it, add --trust-code"
        return {"note": f"{shown}, since --trust-code is not given: {error.message}{at}{hint}"}
    return {"fault": str(error) if isinstance(error, EnergonError) else f"{before}{error_text(error)}"}


def _is_excluded(dataset: Dataset, sample: int) -> bool:
    try:
        return is_excluded(dataset, sample)
    except EnergonError:
        return False  # preview does not need the split file: lint reports its faults
