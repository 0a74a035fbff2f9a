"""The version of this library, for its build, its commands, and the datasets that it prepares."""

__version__ = "0.2.0"

__all__ = ["__version__"]
