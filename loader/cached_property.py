"""``functools.cached_property`` whose value is the same for all threads, without a lock.

Before Python 3.12, all objects of a class share a lock, which is held while a value is computed. A process forked while
a thread computes a value (a thread that opens the index of another dataset, for example) would deadlock. Since 3.12,
threads that compute a value concurrently get different ones.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801 - the name of the original
        """Property that is computed at its first use. Threads that compute it concurrently get the same value."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.attrname, self.func(instance))
