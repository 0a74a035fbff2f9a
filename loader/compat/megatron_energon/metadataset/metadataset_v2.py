import os
from dataclasses import dataclass

from loader import EPath, MetadatasetV2, SystemFileStore
from loader.errors import ConfigError

from ..flavors.webdataset.config import INDEX_SQLITE_FILENAME, MAIN_FOLDER_NAME

__all__ = ["INDEX_SQLITE_FILENAME", "MAIN_FOLDER_NAME", "AuxFilesystemReference", "MetadatasetV2"]


@dataclass(slots=True, kw_only=True)
class AuxFilesystemReference:
    """An auxiliary ``filesystem://`` of a metadataset: a folder whose files are read by their paths.

    Attributes:
        fs_path: The folder, relative to that of the metadataset; an absolute one after :meth:`post_initialize`.
    """

    fs_path: str | os.PathLike[str]

    def post_initialize(self, mds_path: EPath | None = None) -> None:
        """Resolve the path.

        Args:
            mds_path: Path of the metadataset.

        Raises:
            ConfigError: The path is relative, and there is no metadataset.
        """
        if mds_path is not None:
            self.fs_path = mds_path.parent / os.fspath(self.fs_path)
        elif not os.path.isabs(self.fs_path):
            raise ConfigError(f"expected an absolute path without a metadataset, found {self.fs_path!s}")
        self.fs_path = EPath(self.fs_path)

    def get_file_store(self) -> SystemFileStore:
        """Return the store of the folder's files.

        Raises:
            ConfigError: :meth:`post_initialize` was not called.
        """
        if not isinstance(self.fs_path, EPath):
            raise ConfigError("expected post_initialize() to be called before get_file_store()")
        return SystemFileStore(self.fs_path)
