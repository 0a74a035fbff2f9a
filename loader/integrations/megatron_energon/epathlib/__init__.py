from .epath import EPath

__all__ = ["EPath"]
