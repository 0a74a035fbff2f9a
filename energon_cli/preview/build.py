"""What makes the samples that ``preview`` shows of their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loader.format.dataset_folder import DatasetFolder

    from .source import Build

__all__ = ["make_build"]


def make_build(dataset: DatasetFolder, *, trust_code: bool, crude_too: bool = False) -> Build | None:
    """Give what makes samples as ``dataset.yaml`` says; None where samples stay parts.

    Args:
        dataset: The dataset.
        trust_code: Code of the dataset may run.
        crude_too: Also make crude samples, of decoded parts, for a joiner.
    """
    config = dataset.config
    if (config is None or config.crude) and not crude_too:
        return None
    from ..console import show_progress

    show_progress("decoding the first sample…")
    from loader.errors import TrustError
    from loader.format.nv_meta import FOLDER
    from loader.samples.building.sample_builder import SampleBuilder
    from loader.samples.decoding.decoder import SampleDecoder

    try:
        builder = SampleBuilder(
            config, meta_folder=dataset.storage.local_path(FOLDER), decoder=SampleDecoder(), trust_code=trust_code
        )
    except TrustError as error:
        refused = error

        def refuse(_parts: Mapping[str, bytes], _key: str) -> Any:
            raise refused

        return refuse

    def build(parts: Mapping[str, bytes], key: str) -> Any:
        if config is not None and config.field_map is not None:
            return builder.build(parts, key=key)  # decodes what it needs, and knows what else is there
        wanted = {name: data for name, data in parts.items() if builder.part_filter(name)}
        return builder.build(wanted, key=key)

    return build
