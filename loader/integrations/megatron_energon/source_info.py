from loader.samples.source_info import SourceInfo, add_source_info, get_source_info
from loader.storage.epath import EPath

__all__ = ["EPath", "SourceInfo", "add_source_info", "get_source_info"]
