from loader.samples.source_info import SourceInfo

__all__ = ["SourceInfo"]
