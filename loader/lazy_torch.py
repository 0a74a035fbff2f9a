"""``torch``, imported at its first use: plans and counts of runs need the classes of the pipeline, but no tensors.

Importing torch takes longer than to plan a run, and more memory. Modules that most programs use only for plans import
it as ``from ..lazy_torch import torch``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["torch"]


class _LazyTorch:
    """Represents the module; each attribute is looked up in it once."""

    def __getattr__(self, name: str) -> Any:
        try:
            import torch as module
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("tensors need the package torch: pip install torch", name="torch") from error
        attribute = getattr(module, name)
        setattr(self, name, attribute)
        return attribute


if TYPE_CHECKING:
    import torch
else:
    torch = _LazyTorch()
