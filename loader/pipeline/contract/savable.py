"""Base class of objects that users' datasets save with their own state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

__all__ = ["Savable"]


class Savable(ABC):
    """Object that a dataset names in ``_savable_fields``, and that is saved and restored by its own methods."""

    @abstractmethod
    def save_state(self) -> Any:
        """Return the state: plain data, where possible."""

    @abstractmethod
    def restore_state(self, state: Any) -> None:
        """Restore the result of :meth:`save_state`; None restores the initial state."""
