"""Cookers: functions that make a sample out of a crude one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from typing import Any, TypeVar, overload

from ...errors import ConfigError
from ..hooks import current_cache, mark_of, marked
from ..source_info import SourceInfo

__all__ = ["Cooker", "basic_sample_keys", "cook", "cooker", "needs_cache", "needs_primary"]

F = TypeVar("F", bound=Callable[..., Any])

_NEED_PRIMARY = "__need_primary__"
_NEED_CACHE = "__need_cache__"


@overload
def cooker(fn: F, /) -> F: ...


@overload
def cooker(fn: None = None, /, *, need_primary: bool = False, need_cache: bool = False) -> Callable[[F], F]: ...


def cooker(
    fn: Callable[..., Any] | None = None, /, *, need_primary: bool = False, need_cache: bool = False
) -> Callable[..., Any]:
    """Mark a cooker function with what it asks for beside the sample and the auxiliary stores.

    Args:
        fn: The function.
        need_primary: It takes ``primary=``, a store with all parts of the sample's own dataset.
        need_cache: It takes ``cache=``, the cache pool of the run.

    >>> @cooker(need_primary=True)
    ... def cook_page(sample, primary, **aux): ...
    >>> Cooker(cook_page).need_primary
    True
    """
    marks = {_NEED_PRIMARY: need_primary, _NEED_CACHE: need_cache}
    return partial(marked, marks=marks) if fn is None else marked(fn, marks)


@dataclass(frozen=True)
class Cooker:
    """A cooker function, and the crude samples that it is for.

    Args:
        cook: Makes a sample of a crude one: ``cook(sample, **aux)``. It may be a generator of several samples.
        has_subflavors: The sample must have these subflavors, each with this value; it may have others, too.
        condition: The sample must also pass this test, which is given the crude sample.

    Attributes:
        need_primary: Whether ``cook`` takes ``primary=``.
        need_cache: Whether ``cook`` takes ``cache=``.
        takes_all: Whether it is for every sample.
    """

    cook: Callable[..., Any]
    has_subflavors: Mapping[str, Any] | None = None
    condition: Callable[[dict[str, Any]], bool] | None = None
    need_primary: bool = field(init=False, repr=False, compare=False)
    need_cache: bool = field(init=False, repr=False, compare=False)
    takes_all: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Looked up here, once: cooking is done for each sample.
        object.__setattr__(self, "need_primary", needs_primary(self.cook))
        object.__setattr__(self, "need_cache", needs_cache(self.cook))
        object.__setattr__(self, "takes_all", not self.has_subflavors and self.condition is None)

    def is_match(self, subflavors: Mapping[str, Any] | None) -> bool:
        """Tell whether a sample with these subflavors is for this cooker, its ``condition`` aside.

        >>> cooker = Cooker(dict, has_subflavors={"type": "ocr"})
        >>> cooker.is_match({"type": "ocr", "augment": True}), cooker.is_match({})
        (True, False)
        """
        wanted = self.has_subflavors
        return not wanted or (subflavors is not None and wanted.items() <= subflavors.items())

    def is_for(self, sample: dict[str, Any]) -> bool:
        """Tell whether a crude sample is for this cooker."""
        return self.is_match(sample.get("__subflavors__")) and (self.condition is None or self.condition(sample))


def needs_primary(fn: Callable[..., Any]) -> bool:
    """Tell whether a function is marked with ``@cooker(need_primary=True)``."""
    return bool(mark_of(fn, _NEED_PRIMARY, False))


def needs_cache(fn: Callable[..., Any]) -> bool:
    """Tell whether a function is marked with ``@cooker(need_cache=True)``."""
    return bool(mark_of(fn, _NEED_CACHE, False))


def basic_sample_keys(sample: Mapping[str, Any], additional_sources: Sequence[SourceInfo] = ()) -> dict[str, Any]:
    """Get what all samples have, to hand it from a crude sample to the one that is made of it.

    Args:
        sample: The crude sample.
        additional_sources: Where else the new sample's parts are from, beside the crude one's own sources.

    >>> from loader import TextSample
    >>> crude = {"__key__": "s.tar/0", "__subflavors__": {"lang": "en"}, "txt": "a cat"}
    >>> TextSample(**basic_sample_keys(crude), text=crude["txt"])
    TextSample(__key__='s.tar/0', text='a cat')
    """
    get = sample.get
    return {
        "__key__": sample["__key__"],
        "__restore_key__": get("__restore_key__", ()),
        "__subflavors__": get("__subflavors__"),
        "__sources__": (*(get("__sources__") or ()), *additional_sources) if additional_sources else get("__sources__"),
    }


def cook(sample: dict[str, Any], cookers: Sequence[Cooker], aux: Mapping[str, Any]) -> Any:
    """Let the first cooker that a crude sample is for make a sample of it.

    Args:
        sample: The crude sample.
        cookers: Those of the task encoder; without any, the crude sample is the sample.
        aux: What is there beside the sample: auxiliary stores by name, ``primary`` and ``cache``.

    Raises:
        ConfigError: The sample is for no cooker, or its cooker asks for what is not there, or takes not what is.
    """
    if not cookers:
        return sample
    for one in cookers:
        if one.takes_all or one.is_for(sample):
            given = _given(one, aux) if aux or one.need_primary or one.need_cache else aux
            try:
                return one.cook(sample, **given) if given else one.cook(sample)
            except TypeError as error:
                unlike = _unlike_call(one, sample, given)
                if unlike is None:
                    raise
                raise unlike from error
    raise _no_cooker(sample, cookers)


def _given(one: Cooker, aux: Mapping[str, Any]) -> dict[str, Any]:
    """Choose what a cooker is given: all auxiliary stores, and what it asks for."""
    given = dict(aux)
    for name, needed in (("primary", one.need_primary), ("cache", one.need_cache)):
        if not needed:
            given.pop(name, None)
        elif name == "cache" and given.get(name) is None:
            given[name] = current_cache()
        elif given.get(name) is None:
            raise ConfigError(
                f"cooker {_name(one)} asks for {name}=, which is not there",
                hint="a crude dataset that is prepared has it; JSONL files and samples made by hand don't",
            )
    return given


def _unlike_call(one: Cooker, sample: Mapping[str, Any], given: Mapping[str, Any]) -> ConfigError | None:
    """Tell how a cooker is not called as it is written; None where it is, and fails for another reason."""
    try:
        signature(one.cook).bind(sample, **given)
    except TypeError as error:
        there = ", ".join(f"{name}=" for name in given) or "nothing else"
        return ConfigError(
            f"cooker {_name(one)} {error}; beside sample {sample.get('__key__')!r} there is {there}",
            hint="add the stores that it takes to aux: of the dataset in the metadataset; **aux takes those it ignores",
        )
    except ValueError:  # a function of another language, which does not tell its arguments
        return None
    return None


def _no_cooker(sample: Mapping[str, Any], cookers: Sequence[Cooker]) -> ConfigError:
    wanted = "; ".join(f"{_name(one)} wants {_wish(one)}" for one in cookers)
    has = f"sample {sample.get('__key__')!r} with subflavors {sample.get('__subflavors__')}"
    return ConfigError(
        f"no cooker is for {has}: {wanted}",
        hint="add a Cooker to the task encoder's cookers, or give the dataset the subflavors that one of them wants",
    )


def _wish(one: Cooker) -> str:
    wish = str(dict(one.has_subflavors)) if one.has_subflavors else "any"
    return wish if one.condition is None else f"{wish} and its condition"


def _name(one: Cooker) -> str:
    return getattr(one.cook, "__qualname__", repr(one.cook))
