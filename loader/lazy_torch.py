"""``torch``, imported at its first use: plans and counts of runs need the classes of the pipeline, but no tensors.

Importing torch takes longer than to plan a run, and more memory. Modules that most programs use only for plans import
it as ``from ..lazy_torch import torch``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import torch_needed

__all__ = ["torch"]


class _LazyTorch:
    """Represents the module; each attribute is looked up in it once."""

    def __getattr__(self, name: str) -> Any:
        with torch_needed():
            import torch as module
        attribute = getattr(module, name)
        setattr(self, name, attribute)
        return attribute


if TYPE_CHECKING:
    import torch
else:
    torch = _LazyTorch()
