"""``functools.cached_property`` without the lock that it has before Python 3.12.

All objects of a class share that lock, which is held while a value is computed. A process forked while a thread
computes a value (a thread that opens the index of another dataset, for example) would deadlock.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:
    import functools

    class cached_property(functools.cached_property):  # noqa: N801 - the name of the original
        """Property that is computed at its first use. Threads that compute it concurrently get the same value."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.attrname, self.func(instance))
