"""Version of the library, used by the build, the commands, and the metadata of prepared datasets."""

__version__ = "0.4.0"
