from loader.errors import FatalSampleError, SkipSample
from loader.pipeline.error_handlers import log_exception, reraise_exception
from loader.samples.source_info import SourceInfo

__all__ = ["FatalSampleError", "SkipSample", "SourceInfo", "log_exception", "reraise_exception"]
