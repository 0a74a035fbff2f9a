from loader.storage.epath import EPath

__all__ = ["DEFAULT_PROFILE_NAME", "RESERVED_POSIX_PROFILE_NAME", "EPath"]

DEFAULT_PROFILE_NAME = RESERVED_POSIX_PROFILE_NAME = EPath("/").profile
