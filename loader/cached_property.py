"""``functools.cached_property`` without the lock that it has before Python 3.12.

That lock is shared by all objects of a class, and is held while a value is computed. If a process is forked while a
thread computes one (a thread that opens the index of another dataset, for example), the child would deadlock.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:
    import functools

    class cached_property(functools.cached_property):  # noqa: N801 - it has the name of the original
        """A value that is computed at its first use. Threads that compute it at once get one value."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.attrname, self.func(instance))
