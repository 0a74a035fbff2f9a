"""A task encoder around another one."""

from __future__ import annotations

from inspect import getattr_static
from typing import TYPE_CHECKING, Any

from ..hooks import is_library_hook
from .task_encoder import TaskEncoder

__all__ = ["AugmentTaskEncoder"]


class _OfInner:
    """A hook or attribute that is the inner task encoder's."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, outer: Any, owner: type[Any] | None = None) -> Any:
        if outer is None:
            return self
        inner = outer._task_encoder  # noqa: SLF001 - this class is part of the one below
        hook = getattr(inner, self._name)
        if self._name in getattr(inner, "__dict__", ()):
            return hook
        defined = _definition(inner, self._name)
        # The library's own hooks may call other hooks and read attributes, which the outer encoder may have changed.
        return defined.__get__(outer, type(outer)) if is_library_hook(defined) else hook


def _definition(encoder: Any, name: str) -> Any:
    """Find what an encoder's class says a hook is, through all encoders around which it is."""
    defined = getattr_static(type(encoder), name, None)
    while isinstance(defined, _OfInner):
        encoder = encoder._task_encoder  # noqa: SLF001 - as above
        defined = getattr_static(type(encoder), name, None)
    return defined


class AugmentTaskEncoder(TaskEncoder[Any, Any, Any, Any]):
    """Change some hooks of another task encoder, whatever its class is; derive from it and define these hooks.

    All other hooks, and all attributes, are those of the inner encoder. A hook gets at the inner one by ``super()``. Of
    the inner encoder's own code, calls of its hooks stay within it.

    Args:
        task_encoder: The inner encoder.

    >>> from loader.samples import DefaultTaskEncoder
    >>> class Shout(AugmentTaskEncoder):
    ...     def encode_sample(self, sample):
    ...         return super().encode_sample(sample) | {"text": sample["text"].upper()}
    >>> Shout(DefaultTaskEncoder()).encode_sample({"text": "a cat"})
    {'text': 'A CAT'}
    """

    def __init__(self, task_encoder: TaskEncoder[Any, Any, Any, Any]) -> None:
        self._task_encoder = task_encoder

    if not TYPE_CHECKING:
        # To a type checker they are what TaskEncoder says.
        decoder = _OfInner()
        cookers = _OfInner()
        cook_crude_sample = _OfInner()
        encode_sample = _OfInner()
        preencode_sample = _OfInner()
        postencode_sample = _OfInner()
        select_samples_to_pack = _OfInner()
        pack_selected_samples = _OfInner()
        batch_group_criterion = _OfInner()
        batch = _OfInner()
        encode_batch = _OfInner()

    def __getattr__(self, name: str) -> Any:
        if name == "_task_encoder":
            found = f"{type(self).__name__} has no inner task encoder"
            raise AttributeError(f"{found}: its __init__ must call super().__init__(task_encoder)")
        if name.startswith("__"):  # what copy and pickle look for, also before there is an inner encoder
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._task_encoder, name)
