from loader.samples.encoding.cooking import (
    Cooker,
    basic_sample_keys,
    cooker,
    needs_cache as get_cooker_need_cache,
    needs_primary as get_cooker_need_primary,
)
from loader.samples.encoding.task_encoder import T_sample
from loader.samples.source_info import SourceInfo
from loader.samples.types import Sample

__all__ = [
    "Cooker",
    "Sample",
    "SourceInfo",
    "T_sample",
    "basic_sample_keys",
    "cooker",
    "get_cooker_need_cache",
    "get_cooker_need_primary",
]
