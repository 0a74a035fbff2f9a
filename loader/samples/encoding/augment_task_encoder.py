"""Task encoder that wraps another one and overrides some of its hooks."""

from __future__ import annotations

from functools import wraps
from inspect import getattr_static
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from ..hooks import is_library_hook
from .task_encoder import TaskEncoder


class _InnerHook:
    """Descriptor that delegates a hook or attribute to the inner task encoder."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, outer: Any, owner: type[Any] | None = None) -> Any:
        if outer is None:
            return self._of_class()
        inner = outer._task_encoder  # noqa: SLF001 - both classes are one unit
        hook = getattr(inner, self._name)
        if self._name in getattr(inner, "__dict__", ()):
            return hook
        defined = _definition(inner, self._name)
        # The library's hooks may call other hooks and read attributes, which the outer encoder may override.
        return defined.__get__(outer, type(outer)) if is_library_hook(defined) else hook

    def _of_class(self) -> Any:
        """Return what ``AugmentTaskEncoder.encode_sample`` is: a function of the outer encoder and its arguments."""
        described = getattr(TaskEncoder, self._name)
        if not callable(described):
            return described

        @wraps(described, updated=())  # without the marks of the library's hook
        def hook(outer: Any, *args: Any, **kwargs: Any) -> Any:
            return self.__get__(outer)(*args, **kwargs)

        return hook


def _definition(encoder: Any, name: str) -> Any:
    """Return a hook as the class of the innermost encoder defines it, through all wrapping encoders."""
    defined = getattr_static(type(encoder), name, None)
    while isinstance(defined, _InnerHook):
        encoder = encoder._task_encoder  # noqa: SLF001 - as above
        defined = getattr_static(type(encoder), name, None)
    return defined


class AugmentTaskEncoder(TaskEncoder[Any, Any, Any, Any]):
    """Base of task encoders that override some hooks of another task encoder, of any class.

    All other hooks, and all attributes, come from the inner encoder. An overriding hook calls the inner one by
    ``super()``. Hooks that the inner encoder's own code calls are the inner ones.

    Args:
        task_encoder: The inner encoder.

    >>> from loader.samples import DefaultTaskEncoder
    >>> class Shout(AugmentTaskEncoder):
    ...     def encode_sample(self, sample):
    ...         return super().encode_sample(sample) | {"text": sample["text"].upper()}
    >>> Shout(DefaultTaskEncoder()).encode_sample({"text": "a cat"})
    {'text': 'A CAT'}
    """

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)  # annotations name the types of its hooks

    def __init__(self, task_encoder: TaskEncoder[Any, Any, Any, Any]) -> None:
        self._task_encoder = task_encoder

    if not TYPE_CHECKING:
        # Type checkers see the signatures of TaskEncoder.
        __default_failure_tolerance__ = _InnerHook()
        decoder = _InnerHook()
        cookers = _InnerHook()
        cook_crude_sample = _InnerHook()
        encode_sample = _InnerHook()
        preencode_sample = _InnerHook()
        postencode_sample = _InnerHook()
        select_samples_to_pack = _InnerHook()
        pack_selected_samples = _InnerHook()
        batch_group_criterion = _InnerHook()
        batch = _InnerHook()
        encode_batch = _InnerHook()

    def __getattr__(self, name: str) -> Any:
        if name == "_task_encoder":
            lack = f"{type(self).__name__} has no inner task encoder"
            raise AttributeError(f"{lack}: its __init__ must call super().__init__(task_encoder)")
        if name.startswith("__"):  # copy and pickle look these up before the inner encoder is set
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._task_encoder, name)
