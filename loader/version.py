"""The version of this library: read by its build, its commands, and what writes it into datasets."""

__version__ = "0.1.0"

__all__ = ["__version__"]
