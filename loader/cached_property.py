"""``functools.cached_property`` without the lock that it has before Python 3.12.

That lock is one for all objects of a class, and is held while a value is made. A process that is forked while some
thread makes one, such as a thread that opens the index of another dataset, would wait for it for ever.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:
    import functools

    class cached_property(functools.cached_property):  # noqa: N801 - it stands for that one
        """A value that is made when it is first asked for; of two threads that make it at once, one's is kept."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.attrname, self.func(instance))
