from loader.errors import FatalSampleError, SampleException, SkipSample
from loader.pipeline.contract.error_handlers import log_exception, reraise_exception
from loader.samples.sample_format import format_sample_compact, format_sample_detailed
from loader.samples.source_info import SourceInfo, get_source_info

__all__ = [
    "FatalSampleError",
    "SampleException",
    "SkipSample",
    "SourceInfo",
    "format_sample_compact",
    "format_sample_detailed",
    "get_source_info",
    "log_exception",
    "reraise_exception",
]
