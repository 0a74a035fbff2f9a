"""Import the classes and functions that a dataset or a metadataset names, if the caller trusts it."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from importlib.machinery import SourceFileLoader
from multiprocessing import parent_process
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from ...errors import ConfigError
from ...format.documents.dataset_config import DatasetConfig, is_own_module
from ...format.documents.field_map import FieldMap, parse_field_map
from ...format.documents.messages import did_you_mean
from ...own_names import is_own, name_here
from ...storage import EPath
from .. import types
from ..trust import is_trusted, refuse
from ..types import CrudeSample

if TYPE_CHECKING:
    from ...metadataset.documents.leaf_plan import Joiner

_JOIN_METHOD = "from_joined"
_MISSING = object()


def dataset_class_of(config: DatasetConfig, *, trust_code: bool) -> Any:
    """Return the user's dataset class that a ``dataset.yaml`` names.

    Raises:
        TrustError: The class's module is not imported, and the caller does not trust the dataset.
    """
    return find_code(config.dataset_module, config.dataset_class or "", trust_code=trust_code)


def described_by(config: DatasetConfig, code: DatasetCode, **choices: Any) -> Any:
    """Create an object of the user's dataset class that a ``dataset.yaml`` names.

    Returns:
        None if the class is no :class:`.DescribedDataset`, and so only has a ``__sample_type__``.

    Raises:
        TrustError: The class's module is not imported, and the caller does not trust the dataset.
    """
    dataset_class = dataset_class_of(config, trust_code=code.trust_code)
    owner = next((base for base in getattr(dataset_class, "__mro__", ()) if "build" in vars(base)), None)
    if owner is not None and not is_own(owner.__module__):
        raise ConfigError(
            f"{config.dataset_module}.{config.dataset_class} overrides build(), which is not called when a "
            "dataset is loaded: the order of samples is known before any is read",
            at=str(code.folder),
            hint="derive the class from DefaultDecoderWebdatasetFactory, and override load_sample or sample_filter",
        )
    describe = getattr(dataset_class, "described_by", None)
    return None if describe is None else describe(config, code, **choices)


def checked_sample_class(cls: Any) -> type[Any]:
    """Return ``cls`` if it is a sample class: a dataset must not call just any class that happens to be imported."""
    if isinstance(cls, type) and (is_dataclass(cls) or issubclass(cls, types.CrudeSample)):
        return cls
    raise ConfigError(f"{cls!r} is not a sample class; expected a dataclass, such as a subclass of Sample")


def load_joiner(joiner: Joiner, *, at: str, trust_code: bool) -> Callable[..., Any]:
    """Return the function that builds one sample from the samples of a join's datasets.

    A joiner of a module that is already imported needs no trust; importing the module does. Functions of Python's
    standard library always need trust: they were not written to receive samples.

    Args:
        joiner: Module and name, as written in the metadataset.
        at: Position in the metadataset, for messages.
        trust_code: Allow importing the joiner's module.

    Returns:
        The class's ``from_joined``, or the function. Its arguments are one sample (or None) of each dataset.

    Raises:
        TrustError: Its module is not imported, or is part of Python, and the caller does not trust the metadataset.
        ConfigError: There is no such module, class or function, or the class has no ``from_joined`` that can be called.
    """
    # Find the function or class, which needs trust unless its module is imported.
    full_name = f"{joiner.module}.{joiner.name}"
    code = find_code(
        joiner.module,
        joiner.name,
        kind="function" if joiner.is_function else "class",
        source="the joiner of this join",
        trust_code=trust_code,
        at=at,
    )
    if joiner.is_function:
        return _checked_function(code, full_name, at=at, trust_code=trust_code)
    # A class builds samples by a method that needs no object.
    if not isinstance(code, type):
        raise ConfigError(
            f"{full_name} is not a class", at=at, hint="name a function with __function__ instead of __class__"
        )
    method = inspect.getattr_static(code, _JOIN_METHOD, None)
    if method is None:
        raise ConfigError(
            f"class {full_name} has no {_JOIN_METHOD}; expected a classmethod that builds one sample",
            at=at,
            hint=f"add @classmethod def {_JOIN_METHOD}(cls, …) to it",
        )
    if not isinstance(method, classmethod | staticmethod):
        raise ConfigError(
            f"{_JOIN_METHOD} of class {full_name} is not a classmethod, so it cannot be called without an object",
            at=at,
            hint="decorate it with @classmethod",
        )
    joined: Callable[..., Any] = getattr(code, _JOIN_METHOD)
    return joined


def _checked_function(code: Any, full_name: str, *, at: str, trust_code: bool) -> Callable[..., Any]:
    if isinstance(code, type):
        raise ConfigError(f"{full_name} is a class", at=at, hint="name it with __class__ instead of __function__")
    if not callable(code):
        raise ConfigError(f"{full_name} is not a function", at=at, hint="name a function of that module")
    # A module may have imported the function, so check where it is defined, too.
    names = [full_name, str(code.__module__)] if inspect.isroutine(code) else [full_name]
    is_stdlib = any(name.partition(".")[0] in sys.stdlib_module_names for name in names)
    if is_stdlib and not is_trusted(trust_code):
        raise refuse(f"the joiner of this join asks to call {full_name} of Python's standard library", at=at)
    function: Callable[..., Any] = code
    return function


class MetaFunction:
    """A function defined in a file of ``.nv-meta``; it pickles as path and name.

    Raises:
        TrustError: ``trust_code`` is false; no code has run.
    """

    def __init__(self, folder: str | os.PathLike[str], reference: str, *, trust_code: bool) -> None:
        file, _, self.name = reference.rpartition(":")
        self.path = EPath(folder) / file
        if not is_trusted(trust_code):
            raise refuse(f"dataset.yaml asks to run {self.name}() of {file}", at=str(self.path))
        self._function = self._load()

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __repr__(self) -> str:
        return f"MetaFunction({str(self.path)!r}, {self.name!r})"

    def __getstate__(self) -> tuple[EPath, str]:
        return self.path, self.name

    def __setstate__(self, state: tuple[EPath, str]) -> None:
        # Trust was checked when the pickled object was created.
        self.path, self.name = state
        self._function = self._load()

    def _load(self) -> Callable[..., Any]:
        module = _import_file(self.path)
        function = getattr(module, self.name, None)
        if not callable(function):
            names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
            raise ConfigError(
                f"there is no function {self.name!r}{did_you_mean(self.name, names)}", file=str(self.path)
            )
        loaded: Callable[..., Any] = function
        return loaded


@dataclass(frozen=True, slots=True)
class DatasetCode:
    """The files of code in the ``.nv-meta`` folder of a dataset.

    Attributes:
        folder: The folder.
        trust_code: Allow the files to run.
    """

    folder: str | os.PathLike[str]
    trust_code: bool

    def function(self, given: str | Callable[..., Any] | None) -> Callable[..., Any] | None:
        """Return a function; import one that is given as ``"file.py:function"``, as :class:`MetaFunction` does."""
        return MetaFunction(self.folder, given, trust_code=self.trust_code) if isinstance(given, str) else given


class _FileLoader(SourceFileLoader):
    """Import a Python file without writing a ``__pycache__`` into the dataset."""

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:  # noqa: ARG002 - the signature is Python's
        return


def _import_file(path: EPath) -> ModuleType:
    """Import a file under a name derived from its path and content, so that an edited file is imported again."""
    # The name is a hash of path and content: equal files are imported once, edited ones again.
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read this file: {error.strerror}", file=str(path)) from error
    digest = hashlib.sha256(os.fsencode(path) + b"\0" + content).hexdigest()
    name = f"_energon_meta_{path.stem}_{digest[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and pickle look classes up by their module's name
    try:
        _FileLoader(name, str(path.local_path())).exec_module(module)
    except Exception as error:
        del sys.modules[name]
        message = f"importing this file fails: {type(error).__name__}: {error}"
        raise ConfigError(message, file=str(path)) from error
    return module


def find_code(
    module_name: str,
    name: str,
    *,
    trust_code: bool,
    kind: Literal["class", "function"] = "class",
    source: str = "dataset.yaml",
    at: str | None = None,
) -> Any:
    """Return an attribute of a module; the caller checks that it is a class or a function.

    Raises:
        TrustError: The module is not imported, or would import the class or function on access, and the caller does
            not trust the dataset.
    """
    # What a document calls `loader` is this library, even if the program has a module of that name.
    imported = name_here(module_name)
    module = sys.modules.get(imported)
    # Looking up an attribute that a module lacks runs its __getattr__, which may import anything (PEP 562).
    runs_no_code = module is not None and (name in vars(module) or "__getattr__" not in vars(module))
    if not (runs_no_code or (module and is_own_module(module_name))) and not is_trusted(trust_code):
        error = refuse(f"{source} asks to import {module_name} for its {kind} {name}", at=at)
        # A spawned worker has not imported the rank's modules, unless the script imports them at its top.
        where = " at the top of your script, which spawned workers import, too" if parent_process() is not None else ""
        before = f"import {module_name} before loading the dataset{where}"
        error.hint = f"{before if module is None else 'name the module that defines it'}; or {error.hint}"
        raise error
    try:
        module = importlib.import_module(imported)
        code = getattr(module, name, _MISSING)
    except ImportError as error:
        raise ConfigError(f"{source} names {module_name}.{name}, but: {error}", at=at) from error
    if code is _MISSING:
        alike = [known for known, value in vars(module).items() if isinstance(value, type) == (kind == "class")]
        alike = [known for known in alike if callable(getattr(module, known)) and not known.startswith("_")]
        raise ConfigError(f"module {module_name} has no {kind} {name!r}{did_you_mean(name, alike)}", at=at)
    return code


# ------------------------------------------------------------------------------------------- how samples are built

PartFilter = frozenset[str] | Callable[[str], Any]
"""Names of the parts to read, or a predicate on part names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecipe:
    """Recipe of a dataset's samples: how they are built from their parts."""

    sample_class: type[Any] = CrudeSample  # the class of the samples; a dict class for crude samples
    field_map: FieldMap | None = None  # the part, or the value inside a part, of each field
    # Builds a dict of the fields, or the sample, from a dict of the decoded parts.
    loader: Callable[..., Any] | None = None
    part_filter: PartFilter | None = None  # the parts to read; None reads all
    subflavors: Mapping[str, Any] = field(default_factory=dict)  # labels of every sample

    @classmethod
    def of_config(cls, config: DatasetConfig | None, code: DatasetCode) -> SampleRecipe:
        """Create the recipe of a ``dataset.yaml``; None means crude samples.

        Raises:
            TrustError: It names code to run, and the caller does not trust the dataset.
        """
        if config is None:
            return cls()
        return cls.of_arguments(
            sample_class_of(config, trust_code=code.trust_code),
            field_map=config.field_map,
            sample_loader=config.sample_loader,
            part_filter=config.part_filter,
            subflavors=config.subflavors,
            code=code,
        )

    @classmethod
    def of_arguments(
        cls,
        sample_class: type[Any],
        *,
        field_map: FieldMap | Mapping[str, str] | None,
        sample_loader: str | Callable[..., Any] | None,
        part_filter: str | Sequence[str] | Callable[[str], Any] | None,
        subflavors: Mapping[str, Any],
        code: DatasetCode,
    ) -> SampleRecipe:
        """Create the recipe of a dataset class from its arguments: values as in ``dataset.yaml``, or functions.

        Raises:
            TrustError: A file of the dataset is named, and the caller does not trust the dataset.
        """
        if field_map is not None and not isinstance(field_map, FieldMap):
            field_map = parse_field_map(dict(field_map), file="the field map")
        loader = code.function(sample_loader)
        # A field map names the parts that it reads; without one, the filter does.
        wanted: PartFilter | None
        if field_map is not None:
            wanted = field_map.part_names()
        elif part_filter is None or isinstance(part_filter, str) or callable(part_filter):
            wanted = code.function(part_filter)
        else:
            wanted = frozenset(part_filter)
        return cls(
            sample_class=sample_class, field_map=field_map, loader=loader, part_filter=wanted, subflavors=subflavors
        )

    def completed(
        self,
        sample_type: type[Any] | None,
        options: Mapping[str, Any],
        code: DatasetCode,
    ) -> SampleRecipe:
        """Return the recipe with what it leaves open taken from the caller's options.

        Args:
            sample_type: Class of the samples of a dataset without a ``dataset.yaml``; None for other datasets.

        Raises:
            TrustError: A file of the dataset is named, and the caller does not trust the dataset.

        Warns:
            UserWarning: An option has no effect, since ``dataset.yaml`` defines the same.
        """
        # The caller's arguments complete what dataset.yaml leaves open; they override nothing in it.
        describes_fields = sample_type is not None and not issubclass(sample_type, CrudeSample)
        is_set = {
            "field_map": not describes_fields,
            "sample_loader": not describes_fields,
            "part_filter": self.part_filter is not None,
        }
        used = {name: options[name] for name in is_set if name in options and not is_set[name]}
        for name in is_set.keys() & options.keys() - used.keys():
            warnings.warn(f"{name}= has no effect: dataset.yaml describes the samples", UserWarning, stacklevel=2)
        if not used:
            return self
        return SampleRecipe.of_arguments(
            sample_type if describes_fields and sample_type is not None else self.sample_class,
            field_map=used.get("field_map") or self.field_map,
            sample_loader=used.get("sample_loader") or self.loader,
            part_filter=used.get("part_filter"),
            subflavors=self.subflavors,
            code=code,
        )


def sample_class_of(config: DatasetConfig, *, trust_code: bool) -> type[Any]:
    """Return the sample class of a dataset.

    Classes of this library are found by name. A class of another module is used if that module is already imported;
    importing the module requires trust.

    Raises:
        TrustError: The class's module is not imported, and the caller does not trust the dataset.
    """
    if config.sample_type is None:
        dataset_class = dataset_class_of(config, trust_code=trust_code)
        sample_class = getattr(dataset_class, "__sample_type__", None)
        if sample_class is None:
            name = f"{config.dataset_module}.{config.dataset_class}"
            raise ConfigError(f"{name} has no __sample_type__; expected a dataset class that has one")
        return checked_sample_class(sample_class)
    if is_own_module(config.module):
        built_in: type[Any] = getattr(types, config.sample_type)
        return built_in
    return checked_sample_class(find_code(config.module, config.sample_type, trust_code=trust_code))
