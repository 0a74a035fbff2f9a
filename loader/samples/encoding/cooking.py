"""Cookers: functions that build samples from crude ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from types import GenericAlias
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ...errors import ConfigError
from ..hook_marks import mark_of, marked
from ..hooks import current_cache
from ..source_info import SourceInfo

F = TypeVar("F", bound=Callable[..., Any])

_NEED_PRIMARY = "__need_primary__"
_NEED_CACHE = "__need_cache__"


@overload
def cooker(fn: F) -> F: ...


@overload
def cooker(fn: None = None, *, need_primary: bool = False, need_cache: bool = False) -> Callable[[F], F]: ...


def cooker(
    fn: Callable[..., Any] | None = None, *, need_primary: bool = False, need_cache: bool = False
) -> Callable[..., Any]:
    """Mark a cooker function with the arguments that it needs in addition to the sample and the auxiliary stores.

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
    """A cooker function, and the crude samples that it accepts.

    Args:
        cook: Builds a sample from a crude one: ``cook(sample, **aux)``. It may be a generator of several samples.
        has_subflavors: Subflavors and values that the sample must have; it may have others, too.
        condition: Predicate that the crude sample must also pass.
        has_tags: Other name of ``has_subflavors``.

    Raises:
        ConfigError: ``has_subflavors`` and ``has_tags`` are both given.

    Attributes:
        need_primary: True if ``cook`` takes ``primary=``.
        need_cache: True if ``cook`` takes ``cache=``.
        takes_all: True if it accepts every sample.
        takes_sample_only: True if ``cook`` takes neither.
        takes_all_alone: True if it accepts every sample, and takes nothing else.

    >>> def cook(sample):
    ...     return TextSample(**basic_sample_keys(sample), text=sample["txt"])
    >>> cooker = Cooker(cook, has_subflavors={"kind": "text"})
    >>> cooker.is_match({"kind": "text", "language": "en"})
    True
    """

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)  # annotations name the type of the cooked samples

    cook: Callable[..., Any]
    has_subflavors: Mapping[str, Any] | None = None
    condition: Callable[[dict[str, Any]], bool] | None = None
    has_tags: Mapping[str, Any] | None = field(default=None, repr=False, kw_only=True)
    need_primary: bool = field(init=False, repr=False, compare=False)
    need_cache: bool = field(init=False, repr=False, compare=False)
    takes_all: bool = field(init=False, repr=False, compare=False)
    takes_sample_only: bool = field(init=False, repr=False, compare=False)
    takes_all_alone: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.has_subflavors is not None and self.has_tags is not None:
            raise ConfigError(
                "expected has_subflavors or has_tags, its other name, found both", hint="give all labels by one of them"
            )
        labels = self.has_subflavors if self.has_tags is None else self.has_tags
        object.__setattr__(self, "has_subflavors", labels)
        object.__setattr__(self, "has_tags", labels)
        # Looked up once, because cooking runs for each sample.
        object.__setattr__(self, "need_primary", needs_primary(self.cook))
        object.__setattr__(self, "need_cache", needs_cache(self.cook))
        object.__setattr__(self, "takes_all", not self.has_subflavors and self.condition is None)
        object.__setattr__(self, "takes_sample_only", not (self.need_primary or self.need_cache))
        object.__setattr__(self, "takes_all_alone", self.takes_all and self.takes_sample_only)

    def is_match(self, subflavors: Mapping[str, Any] | None) -> bool:
        """Return True if this cooker accepts samples with these subflavors, its ``condition`` aside.

        >>> cooker = Cooker(dict, has_subflavors={"type": "ocr"})
        >>> cooker.is_match({"type": "ocr", "augment": True}), cooker.is_match({})
        (True, False)
        """
        wanted = self.has_subflavors
        return not wanted or (subflavors is not None and wanted.items() <= subflavors.items())

    def is_for(self, sample: dict[str, Any]) -> bool:
        """Return True if this cooker accepts a crude sample."""
        return self.is_match(sample.get("__subflavors__")) and (self.condition is None or self.condition(sample))


def needs_primary(fn: Callable[..., Any]) -> bool:
    """Return True if a function is marked with ``@cooker(need_primary=True)``."""
    return bool(mark_of(fn, _NEED_PRIMARY, False))


def needs_cache(fn: Callable[..., Any]) -> bool:
    """Return True if a function is marked with ``@cooker(need_cache=True)``."""
    return bool(mark_of(fn, _NEED_CACHE, False))


def basic_sample_keys(
    crude_sample: Mapping[str, Any], additional_source_info: Sequence[SourceInfo] = ()
) -> dict[str, Any]:
    """Return the shared fields of a crude sample, to build a typed sample with them.

    Args:
        crude_sample: The crude sample.
        additional_source_info: Sources of the new sample in addition to the crude sample's own.

    >>> from loader import TextSample
    >>> crude = {"__key__": "s.tar/0", "__subflavors__": {"lang": "en"}, "txt": "a cat"}
    >>> TextSample(**basic_sample_keys(crude), text=crude["txt"])
    TextSample(__key__='s.tar/0', text='a cat')
    """
    get = crude_sample.get
    sources = get("__sources__")
    return {
        "__key__": crude_sample["__key__"],
        "__restore_key__": get("__restore_key__", ()),
        "__subflavors__": get("__subflavors__"),
        "__sources__": (*(sources or ()), *additional_source_info) if additional_source_info else sources,
    }


def cook(sample: dict[str, Any], cookers: Sequence[Cooker], aux: Mapping[str, Any]) -> Any:
    """Build a sample with the first cooker that accepts the crude sample.

    Args:
        cookers: The cookers of the task encoder; without any, the crude sample is returned.
    """
    if not cookers:
        return sample
    for cooker in cookers:
        if cooker.takes_all or cooker.is_for(sample):
            given = aux
            # Most cookers take the sample only, which saves building the arguments.
            try:
                if not aux and cooker.takes_sample_only:
                    return cooker.cook(sample)
                given = _given(cooker, aux)
                return cooker.cook(sample, **given)
            except TypeError as error:
                # A TypeError may come from the call, or from inside of the cooker, which keeps its own message.
                explained = call_error(cooker, sample, given)
                if explained is None:
                    raise
                raise explained from error
    raise _no_cooker(sample, cookers)


def _given(cooker: Cooker, aux: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(aux)
    for name, needed in (("primary", cooker.need_primary), ("cache", cooker.need_cache)):
        if not needed:
            given.pop(name, None)
        elif name == "cache" and given.get(name) is None:
            given[name] = current_cache()
        elif given.get(name) is None:
            raise ConfigError(
                f"cooker {_name(cooker)} needs {name}=, which is not available",
                hint="use a prepared crude dataset or a JSONL file; Parquet files and samples built by hand have none",
            )
    return given


def call_error(cooker: Cooker, sample: Mapping[str, Any], given: Mapping[str, Any]) -> ConfigError | None:
    """Return the error of arguments that do not match a cooker's signature; None if they match."""
    try:
        signature(cooker.cook).bind(sample, **given)
    except TypeError as error:
        available = ", ".join(f"{name}=" for name in given) or "nothing else"
        return ConfigError(
            f"cooker {_name(cooker)} {error}; available besides sample {sample.get('__key__')!r}: {available}",
            hint="add its stores to aux: of the dataset in the metadataset, or accept the others with **aux",
        )
    except ValueError:  # a function written in C without a signature
        return None
    return None


def _no_cooker(sample: Mapping[str, Any], cookers: Sequence[Cooker]) -> ConfigError:
    accepted = "; ".join(f"{_name(cooker)} accepts {_accepted(cooker)}" for cooker in cookers)
    has = f"sample {sample.get('__key__')!r} with subflavors {sample.get('__subflavors__')}"
    return ConfigError(
        f"no cooker accepts {has}: {accepted}",
        hint="add a Cooker to the task encoder's cookers, or set the subflavors that one of them accepts",
    )


def _accepted(cooker: Cooker) -> str:
    accepted = str(dict(cooker.has_subflavors)) if cooker.has_subflavors else "any"
    return accepted if cooker.condition is None else f"{accepted} that pass its condition"


def _name(cooker: Cooker) -> str:
    return getattr(cooker.cook, "__qualname__", repr(cooker.cook))
