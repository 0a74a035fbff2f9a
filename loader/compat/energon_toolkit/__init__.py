"""The library under a name that no program has for a module of its own: importing it gives the library's own module."""

from energon_cli.library import provide

provide()
