from loader.stores.decode_file_store import DecodeFileStore
from loader.stores.system_file_store import SystemFileStore

__all__ = ["DecodeFileStore", "SystemFileStore"]
