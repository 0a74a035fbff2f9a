"""The `energon` command: parses arguments, calls `loader`, and shows the results."""

from .library import library_name as _library_name

_library_name()  # before a module here imports `loader`, which may be a file of the program's
