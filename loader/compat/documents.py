"""Parsed JSON and YAML documents as typed objects."""

import collections.abc
import importlib
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, BinaryIO, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ..errors import ConfigError
from ..format.documents.dataset_config import is_own_module
from ..format.documents.yaml_document import parse_yaml
from ..own_names import name_here
from ..samples.trust import is_trusted, refuse
from ..storage import open_parent
from ..training.datasets.dataset_factory import BaseCoreDatasetFactory

T = TypeVar("T")

_SEQUENCES = (list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable)
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


class JsonValueError(ConfigError, ValueError):
    """A value of a document is not of the expected type."""


@dataclass(kw_only=True)
class JsonParser:
    """Builds typed objects from dicts, lists and scalars.

    Args:
        strict: Refuse keys that are no argument of the object's class.
        allow_imports: Allow ``__module__`` and ``__class__`` (or ``__function__``) at any place of a document, to name
            the class of an object. :meth:`raw_to_instance` always accepts them at the top.
        trust_code: Allow functions, and classes of modules that are neither imported nor of this library. They are
            called with the values of the document. The environment allows them, too: ``ENERGON_TRUST_CODE=1``.

    >>> JsonParser().raw_to_typed({"a": ["1", "2"]}, dict[str, list[str]])
    {'a': ['1', '2']}
    """

    strict: bool = True
    allow_imports: bool = False
    trust_code: bool = False

    def raw_to_instance(self, kwargs: Mapping[str, Any], inst_type: Callable[..., T]) -> T:
        """Create an object of a class from its arguments.

        Args:
            kwargs: The arguments. ``__module__`` and ``__class__`` or ``__function__`` name another class or function.
            inst_type: The class or function, if the arguments name none.

        Raises:
            ConfigError: An argument is missing, unknown or of another type.
            TrustError: The arguments name code that the caller does not trust.
        """
        made: T = self._call(dict(kwargs), inst_type, "", named=True)
        return made

    def raw_to_typed(self, raw_data: Any, inst_type: Any, allow_imports: bool = False) -> Any:
        """Convert a value to a type: a class with annotated arguments, or a type of ``typing``.

        Args:
            raw_data: Dicts, lists and scalars.
            inst_type: The type.
            allow_imports: As for the class.

        Raises:
            ConfigError: The value is not of this type.
            TrustError: The value names code that the caller does not trust.
        """
        return self._convert(raw_data, inst_type, "", named=allow_imports or self.allow_imports)

    def safe_call_function(self, raw_data: Any, fn: Callable[..., T], allow_imports: bool = False) -> T:
        """Call a function with the values of a document: a dict of keyword arguments, or a list of positional ones.

        Args:
            raw_data: The arguments.
            fn: The function, with annotated parameters.
            allow_imports: As for the class, at any place of the arguments.

        Raises:
            ConfigError: An argument is missing, unknown or of another type.
            TrustError: The arguments name code that the caller does not trust.
        """
        parser = JsonParser(strict=self.strict, allow_imports=allow_imports, trust_code=self.trust_code)
        if isinstance(raw_data, list):
            raw_data = dict(zip(inspect.signature(fn).parameters, raw_data, strict=False))
        result: T = parser._call(dict(raw_data), fn, "", named=False)
        return result

    def _call(self, given: dict[str, Any], target: Callable[..., Any], path: str, *, named: bool) -> Any:
        # The document may name the class or function to call.
        if named and "__module__" in given:
            target = self._named(given, default=target)
        if given.get("trust_code") and not is_trusted(self.trust_code):
            raise refuse("the document asks for trust_code")
        signature = inspect.signature(target)
        hints = get_type_hints(target.__init__ if isinstance(target, type) else target)  # type: ignore[misc]
        # Convert each argument to the type that the signature declares.
        arguments: dict[str, Any] = {}
        has_keywords = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
        for name, parameter in signature.parameters.items():
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            if name in given:
                kind = hints.get(name, Any)
                arguments[name] = self._convert(given.pop(name), kind, f"{path}.{name}", named=self.allow_imports)
            elif parameter.default is parameter.empty:
                raise _fault(f"missing argument {name!r} of {target.__qualname__}", path)
        # What remains goes to **kwargs; without them, it is an error in strict documents and ignored in others.
        if given and (self.strict or has_keywords):
            if not has_keywords:
                raise _fault(f"unexpected arguments of {target.__qualname__}: {sorted(given)}", path)
            arguments |= given
        # Parameters before a slash take no names.
        positional = [name for name, kind in signature.parameters.items() if kind.kind is kind.POSITIONAL_ONLY]
        values = [arguments.pop(name) for name in positional if name in arguments]
        return target(*values, **arguments)

    def _named(self, given: dict[str, Any], default: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """Remove the names of a class or function from its arguments, and return it.

        Args:
            given: The arguments.
            default: The class or function that is called if a document names none; None if nothing is called.
        """
        written = str(given.pop("__module__"))
        module = name_here(written)
        is_class = "__class__" in given
        name = str(given.pop("__class__" if is_class else "__function__", None))
        # Without trust, only classes may be named that this library has, or that are imported already.
        trusted = is_trusted(self.trust_code)
        if not trusted and not (is_class and (is_own_module(written) or name in vars(sys.modules.get(module, object)))):
            raise refuse(f"the document asks to import {written} for {name}")
        code = getattr(importlib.import_module(module), name, None)
        if not callable(code):
            raise ConfigError(f"there is no {written}.{name}")
        # Without trust, only an expected class, a dataclass or a dataset may be called: any function could do harm.
        expected = default if isinstance(default, type) and default is not object else BaseCoreDatasetFactory
        is_harmless = isinstance(code, type) and (
            is_dataclass(code) or issubclass(code, (expected, BaseCoreDatasetFactory))
        )
        if not trusted and default is not None and not is_harmless:
            raise refuse(f"the document asks to call {written}.{name}")
        return code  # type: ignore[no-any-return]  # any callable

    def _convert(self, value: Any, kind: Any, path: str, *, named: bool) -> Any:
        origin, arguments = get_origin(kind), get_args(kind)
        # Types that take any value, and objects that name their class.
        if isinstance(kind, TypeVar) or kind in (Any, inspect.Parameter.empty):
            return value
        if named and isinstance(value, dict) and "__module__" in value:
            return self._call(dict(value), origin or kind, path, named=True)
        # Types that are made of other types.
        if origin in (Union, types.UnionType):
            return self._first_of(value, arguments, path, named=named)
        if origin is typing.Annotated:
            return self._convert(value, arguments[0], path, named=named)
        if (origin or kind) in _SEQUENCES and isinstance(value, list | tuple):
            return self._items(value, origin or kind, arguments, path, named=named)
        if (origin or kind) in _MAPPINGS and isinstance(value, dict):
            keys, values = arguments or (Any, Any)
            return {
                self._convert(key, keys, path, named=False): self._convert(item, values, f"{path}.{key}", named=named)
                for key, item in value.items()
            }
        # Scalars, paths, and objects by their arguments.
        if _is_plain(value, kind):
            return value
        target = origin or kind
        if isinstance(target, type) and issubclass(target, os.PathLike) and isinstance(value, str | os.PathLike):
            return value if target is os.PathLike else target(value)  # type: ignore[call-arg]  # a class of paths
        if target is type and isinstance(value, dict) and "__class__" in value:
            return self._named(dict(value))
        if isinstance(value, dict) and origin is None and getattr(kind, "__module__", "builtins") != "builtins":
            return self._call(dict(value), kind, path, named=named)
        raise _fault(f"expected {getattr(kind, '__name__', kind)}, found {value!r}", path)

    def _first_of(self, value: Any, kinds: tuple[Any, ...], path: str, *, named: bool) -> Any:
        faults = []
        for kind in kinds:
            try:
                return self._convert(value, kind, path, named=named)
            except JsonValueError as error:
                faults.append(error.message)
        raise _fault(" or ".join(faults), path)

    def _items(self, value: Any, kind: Any, arguments: tuple[Any, ...], path: str, *, named: bool) -> Any:
        fixed = kind is tuple and arguments and arguments[-1] is not Ellipsis
        if fixed and len(arguments) != len(value):
            raise _fault(f"expected {len(arguments)} values, found {len(value)}", path)
        kinds = arguments if fixed else (arguments[0] if arguments else Any,) * len(value)
        items = [
            self._convert(item, item_kind, f"{path}[{index}]", named=named)
            for index, (item, item_kind) in enumerate(zip(value, kinds, strict=True))
        ]
        return kind(items) if kind in (tuple, set, frozenset) else items


def _is_plain(value: Any, kind: Any) -> bool:
    """Return True if a value needs no conversion: it is a scalar, or an object already."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind in (None, type(None)):
        return value is None
    if isinstance(value, bool):
        return kind is bool or kind is object
    kind = get_origin(kind) or kind
    return isinstance(value, int | float) if kind is float else isinstance(kind, type) and isinstance(value, kind)


def _fault(message: str, path: str) -> JsonValueError:
    return JsonValueError(message, at=path.removeprefix(".") or None)


def load_yaml(stream: BinaryIO | bytes) -> Any:
    """Parse a YAML (or JSON) document.

    Raises:
        ConfigError: It is not valid YAML.

    >>> load_yaml(b"a: [1, 2.5, yes]")
    {'a': [1, 2.5, True]}
    """
    content = stream if isinstance(stream, bytes) else stream.read()
    return parse_yaml(content.decode("utf-8", "replace"), file=getattr(stream, "name", "the document"))


def load_yaml_json(path: str | os.PathLike[str]) -> Any:
    """Parse a YAML or JSON file.

    Raises:
        ConfigError: It is not valid YAML.
        StorageError: It cannot be read.
    """
    storage, name = open_parent(path)
    return parse_yaml(storage.read(name).decode("utf-8", "replace"), file=storage.path(name))


def load_config(
    path: str | os.PathLike[str] | Mapping[str, Any],
    *,
    default_type: Callable[..., T],
    default_kwargs: Mapping[str, Any] | None = None,
    parser: JsonParser | None = None,
) -> T:
    """Create an object from a YAML or JSON file, or from a dict.

    Args:
        path: The file, or its content.
        default_type: Class or function to call with the values of the file, if the file names none by ``__module__``
            and ``__class__``.
        default_kwargs: Values for arguments that the file does not have.
        parser: Converts the values; by default one that refuses unknown arguments and code of other libraries.

    Raises:
        ConfigError: The file is not valid YAML; or an argument is missing, unknown or of another type.
        StorageError: The file cannot be read.
        TrustError: The file names code, and the parser does not trust it.

    >>> from megatron.energon.flavors.webdataset.structs import WebdatasetInfo
    >>> load_config({"shard_counts": {"s.tar": 3}}, default_type=WebdatasetInfo)
    WebdatasetInfo(energon_version=None, shard_counts={'s.tar': 3})
    """
    if isinstance(path, Mapping):
        content = path
    else:
        storage, name = open_parent(path)
        file = storage.path(name)
        content = parse_yaml(storage.read(name).decode("utf-8", "replace"), file=file) or {}
        if not isinstance(content, Mapping):
            raise ConfigError(f"expected a mapping, found {type(content).__name__}", file=file)
    defaults = default_kwargs or {}
    parser = parser or JsonParser(trust_code=bool(defaults.get("trust_code")))
    return parser.raw_to_instance({**defaults, **content}, default_type)
