from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.failures.error_handlers import log_exception, reraise_exception
from loader.samples.source_info import SourceInfo
from loader.stores.cache_pool import CachePool

__all__ = ["CachePool", "SourceInfo", "WorkerConfig", "log_exception", "reraise_exception"]
