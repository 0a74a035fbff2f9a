"""Where the run stands while user code runs: what ``current_batch_index`` and ``current_sample_index`` say."""

from __future__ import annotations

from typing import Any

from ...errors import EnergonError

__all__ = ["HookContext", "current_cache", "hook_context", "running_hook_context", "set_hook_context"]


class HookContext:
    """The position of what a hook is working on.

    Args:
        batch_index: The micro-batch being made, counted over the whole run; None where it is not known.
        sample_index: The sample being made; None where it is not known.
        cache: The cache pool of the run; None where there is none.
        worker_config: How the run is spread; None where it is not known.
    """

    __slots__ = ("batch_index", "cache", "sample_index", "worker_config")

    def __init__(
        self,
        *,
        batch_index: int | None = None,
        sample_index: int | None = None,
        cache: Any | None = None,
        worker_config: Any | None = None,
    ) -> None:
        self.batch_index = batch_index
        self.sample_index = sample_index
        self.cache = cache
        self.worker_config = worker_config

    def __repr__(self) -> str:
        return f"HookContext(batch_index={self.batch_index}, sample_index={self.sample_index})"


# One slot is enough: a process runs one lane's hooks at a time. The pipeline fills it before user code runs.
_current: list[HookContext | None] = [None]


def set_hook_context(context: HookContext | None) -> None:
    """Make ``context`` the one that hooks see; None where no hook is running."""
    _current[0] = context


def running_hook_context() -> HookContext | None:
    """Get the context of the hook that is running; None where none is."""
    return _current[0]


def hook_context() -> HookContext:
    """Get the context of the hook that is running.

    Raises:
        EnergonError: No hook is running.

    >>> set_hook_context(HookContext(batch_index=3, sample_index=50))
    >>> hook_context()
    HookContext(batch_index=3, sample_index=50)
    >>> set_hook_context(None)
    """
    context = _current[0]
    if context is None:
        raise EnergonError(
            "the current batch and sample are known only while a loader runs a hook, and none is running",
            hint="ask inside a hook of a task encoder (encode_sample, batch, …) that a loader calls",
        )
    return context


def current_cache() -> Any:
    """Get the cache pool of the run.

    Raises:
        EnergonError: No hook is running, or the run has no cache pool.
    """
    cache = hook_context().cache
    if cache is None:
        raise EnergonError("a hook asks for the cache, and this run has none", hint="pass a cache_pool to the loader")
    return cache
