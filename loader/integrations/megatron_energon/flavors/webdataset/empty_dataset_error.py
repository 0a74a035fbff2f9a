from loader.errors import EmptyDatasetError

__all__ = ["EmptyDatasetError"]
