from loader.storage.epath import EPath

__all__ = ["EPath"]
