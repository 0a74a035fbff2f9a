"""Marks of hooks, and the context in which hooks run."""

from __future__ import annotations

import threading
from functools import partial, wraps
from typing import Any

import pytest

from loader.errors import EnergonError
from loader.samples import HookContext, failure_tolerance, is_stateless, restores_seeds, set_hook_context
from loader.samples.hook_marks import stateless
from loader.samples.hooks import current_cache, hook_context


def plain(sample: Any) -> Any:
    return sample


class Hooks:
    @stateless
    def marked(self, sample: Any) -> Any:
        return sample

    @stateless(restore_seeds=True, failure_tolerance=50)
    def random(self, sample: Any) -> Any:
        return sample

    def unmarked(self, sample: Any) -> Any:
        return sample


class Overriding(Hooks):
    def marked(self, sample: Any) -> Any:
        return super().marked(sample)


class CallableHook:
    @stateless(failure_tolerance=3)
    def __call__(self, sample: Any) -> Any:
        return sample


def marks(fn: Any) -> tuple[bool, bool, int]:
    return is_stateless(fn), restores_seeds(fn), failure_tolerance(fn, 100)


def test_marks_are_read_from_every_kind_of_callable() -> None:
    assert marks(plain) == (False, False, 100)
    assert marks(Hooks.random) == (True, True, 50)
    assert marks(Hooks().random) == (True, True, 50)
    assert marks(Hooks().marked) == (True, False, 100)
    assert marks(Hooks().unmarked) == (False, False, 100)
    assert marks(partial(Hooks().random)) == (True, True, 50)
    assert marks(partial(partial(Hooks().random), 1)) == (True, True, 50)
    assert marks(stateless(lambda sample: sample)) == (True, False, 100)
    assert marks(CallableHook()) == (True, False, 3)
    assert marks(len) == (False, False, 100)
    assert marks(partial(len)) == (False, False, 100)


def test_an_overriding_method_does_not_inherit_marks() -> None:
    assert marks(Overriding().marked) == (False, False, 100)


def test_marking_does_not_wrap() -> None:
    def hook(sample: Any) -> Any:
        return sample

    assert stateless(hook) is hook
    assert stateless(restore_seeds=True)(hook) is hook


def test_callables_without_attributes_are_marked_by_a_partial() -> None:
    encoder = Hooks()
    marked = stateless(encoder.unmarked)
    assert marks(marked) == (True, False, 100)
    assert marked("a") == "a"
    assert marks(Hooks().unmarked) == (False, False, 100)
    size = stateless(len)
    assert marks(size) == (True, False, 100)
    assert size("ab") == 2


def test_decorators_that_copy_attributes_copy_marks() -> None:
    @wraps(Hooks.random)
    def wrapper(*args: Any) -> Any:
        return Hooks.random(*args)

    assert marks(wrapper) == (True, True, 50)


def test_a_tolerance_of_zero_is_a_tolerance() -> None:
    assert failure_tolerance(stateless(failure_tolerance=0)(lambda: None), 100) == 0


def test_a_hook_sees_the_current_context() -> None:
    context = HookContext(batch_index=3, sample_index=None)
    set_hook_context(context)
    try:
        context.sample_index = 7
        assert (hook_context().batch_index, hook_context().sample_index) == (3, 7)
        assert repr(hook_context()) == "HookContext(batch_index=3, sample_index=7)"
    finally:
        set_hook_context(None)


def test_reading_the_context_outside_a_hook_is_an_error() -> None:
    with pytest.raises(EnergonError, match="only while a loader runs a hook") as raised:
        hook_context()
    assert "inside a hook" in (raised.value.hint or "")


def test_cache_is_the_pool_of_the_run() -> None:
    pool = object()
    set_hook_context(HookContext(cache=pool))
    try:
        assert current_cache() is pool
        set_hook_context(HookContext())
        with pytest.raises(EnergonError, match="this run has none") as raised:
            current_cache()
        assert "cache_pool" in (raised.value.hint or "")
    finally:
        set_hook_context(None)


def test_helper_threads_of_a_hook_see_its_context() -> None:
    set_hook_context(HookContext(sample_index=5))
    seen: list[int | None] = []
    try:
        thread = threading.Thread(target=lambda: seen.append(hook_context().sample_index))
        thread.start()
        thread.join()
    finally:
        set_hook_context(None)
    assert seen == [5]
