"""Hooks of task encoders, and the context in which they run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from ..cached_property import cached_property
from ..errors import EnergonError
from ..order import extend_integer

if TYPE_CHECKING:
    from torch import Generator

_RNG = 32  # separates these seeds from those of the global generators


class HookRng:
    """Random generators for hooks, independent of the global ones; each is created on first access.

    Args:
        parts: Integers that determine the random numbers.

    >>> HookRng(0, 1).random.random() == HookRng(0, 1).random.random()
    True
    """

    def __init__(self, *parts: int) -> None:
        self._word = extend_integer(0, _RNG, *parts)

    @cached_property
    def torch(self) -> Generator:
        """Generator of torch on the CPU."""
        from torch import Generator

        return Generator().manual_seed(self._word)

    @cached_property
    def torch_cuda(self) -> Generator:
        """Generator of torch on the current CUDA device.

        Raises:
            EnergonError: There is no CUDA device.
        """
        from torch import Generator, cuda

        if not cuda.is_available():
            raise EnergonError("rng.torch_cuda needs a CUDA device, and there is none", hint="use rng.torch")
        return Generator(device="cuda").manual_seed(self._word)

    @cached_property
    def numpy(self) -> np.random.Generator:
        """Generator of numpy."""
        return np.random.default_rng(self._word)

    @cached_property
    def random(self) -> Random:
        """Generator of Python's ``random``."""
        return Random(self._word)


F = TypeVar("F", bound=Callable[..., Any])

_LIBRARY = "__library_hook__"
_NOTHING_UNLESS = "__nothing_unless__"


def library_hook(hook: F) -> F:
    """Mark a method of the library's task encoders, which ``AugmentTaskEncoder`` may rebind to the outer encoder."""
    setattr(hook, _LIBRARY, True)
    return hook


def noop_hook(*, unless: str = "") -> Callable[[F], F]:
    """Mark a method of the library's task encoders that has no effect, so that the pipeline builds no stage for it.

    The mark is on the function, so overriding methods do not inherit it.

    Args:
        unless: Attribute of the encoder; the hook has an effect if it is not None.
    """

    def mark(hook: F) -> F:
        setattr(hook, _NOTHING_UNLESS, unless)
        return library_hook(hook)

    return mark


def is_default(hook: Callable[..., Any]) -> bool:
    """Return True if a bound hook is the library's own, without effect.

    >>> from loader.samples import TaskEncoder
    >>> class Encoder(TaskEncoder):
    ...     def encode_sample(self, sample):
    ...         return sample
    >>> is_default(Encoder().encode_sample), is_default(Encoder().encode_batch)
    (False, True)
    """
    unless = getattr(hook, _NOTHING_UNLESS, None)
    if unless is None:
        return False
    return not unless or getattr(getattr(hook, "__self__", None), unless, None) is None


def is_library_hook(attribute: object) -> bool:
    """Return True if an attribute of a class is a method of the library's task encoders."""
    return getattr(attribute, _LIBRARY, False) is True


def alias_hook(other: str) -> Callable[[F], F]:
    """Replace a hook by another hook of the same encoder, until a subclass defines it.

    The alias has the marks of the other hook and adds no call. Only the docstring of the decorated method is used.
    """

    def replace(described: F) -> F:
        return cast("F", _Alias(other, described))

    return replace


class _Alias:
    __library_hook__ = True

    def __init__(self, other: str, described: Callable[..., Any]) -> None:
        self._other = other
        self._described = described

    def __get__(self, encoder: Any, owner: type[Any] | None = None) -> Callable[..., Any]:
        return self._described if encoder is None else getattr(encoder, self._other)


@dataclass(eq=False, kw_only=True)
class HookContext:
    """Position in the run of the item that a hook processes.

    Args:
        batch_index: Index of the current micro-batch in the whole run; None if unknown.
        sample_index: Index of the current sample; None if unknown.
        cache: The cache pool of the run, if any.
        worker_config: The worker config of the run; None if unknown.

    Attributes:
        rng_parts: Integers that seed ``TaskEncoder.rng``; set it to start new generators.
        memory: Memory that batches reuse; None for ordinary memory.
        closing: Closed when the worker of the lane ends.
        outer: The context to which ``worker_pop_sample_index`` returns; None for a context of the library.
    """

    batch_index: int | None = None
    sample_index: int | None = None
    cache: Any = None
    worker_config: Any = None
    rng_parts: tuple[int, ...] = field(default=(), init=False)
    memory: Any = field(default=None, init=False)
    closing: ExitStack = field(default_factory=ExitStack, init=False)
    outer: HookContext | None = field(default=None, init=False)
    _rng_of: tuple[int, ...] | None = field(default=None, init=False)
    _rng: HookRng | None = field(default=None, init=False)

    @property
    def rng(self) -> HookRng:
        """Random generators of the running hook."""
        if self._rng is None or self._rng_of is not self.rng_parts:  # each assignment is another tuple
            self._rng, self._rng_of = HookRng(*self.rng_parts), self.rng_parts
        return self._rng

    @contextmanager
    def seeded_rng(self, *parts: int) -> Iterator[None]:
        """Use generators with another seed, and continue with the present ones afterwards."""
        saved = self.rng_parts, self._rng_of, self._rng
        self.rng_parts, self._rng = parts, None
        try:
            yield
        finally:
            self.rng_parts, self._rng_of, self._rng = saved

    def __repr__(self) -> str:
        return f"HookContext(batch_index={self.batch_index}, sample_index={self.sample_index})"


class _Thread(threading.local):
    # One slot is enough: a process runs the hooks of one lane at a time, and the helper threads of a hook read it, too.
    # The pipeline sets it before user code runs. Workers that are threads have a slot each.
    slot: list[HookContext | None] = [None]  # noqa: RUF012 - shared by all threads without their own


_thread = _Thread()


def separate_hook_context() -> None:
    """Let the hooks of this thread have a context of their own, apart from the process's."""
    _thread.slot = [None]


def set_hook_context(context: HookContext | None) -> None:
    """Set the context that hooks see; None means that no hook is running."""
    _thread.slot[0] = context


@contextmanager
def in_hook_context(context: HookContext) -> Iterator[None]:
    """Let hooks see a context, and afterwards the one before: the code may itself be called by a hook."""
    outer = running_hook_context()
    set_hook_context(context)
    try:
        yield
    finally:
        set_hook_context(outer)


def running_hook_context() -> HookContext | None:
    """Return the context of the running hook; None if no hook is running."""
    return _thread.slot[0]


def hook_context() -> HookContext:
    """Return the context of the running hook.

    Raises:
        EnergonError: No hook is running.

    >>> set_hook_context(HookContext(batch_index=3, sample_index=50))
    >>> hook_context()
    HookContext(batch_index=3, sample_index=50)
    >>> set_hook_context(None)
    """
    context = _thread.slot[0]
    if context is None:
        raise EnergonError(
            "the current batch and sample are known only while a loader runs a hook, and none is running",
            hint="read them inside a hook of a task encoder (encode_sample, batch, …) that a loader calls",
        )
    return context


def current_cache() -> Any:
    """Return the cache pool of the run."""
    cache = hook_context().cache
    if cache is None:
        raise EnergonError("a hook asks for the cache, and this run has none", hint="pass a cache_pool to the loader")
    return cache
