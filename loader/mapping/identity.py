"""Code and values that distinguish one function of a program from another.

Digests are the same in each process: they hold no addresses, line numbers, names of files or orders of sets. So a
program that was killed recognizes its function when it is run again.
"""

from __future__ import annotations

import copyreg
import dis
import hashlib
import itertools
import sys
import sysconfig
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

from ..cached_property import cached_property
from ..engine.journal import OF_THE_FUNCTION
from ..own_names import ROOT, canonical_name

_MAX_COST = 1 << 18
"""Objects and pages of 4 KiB that are compared: 260,000 objects, or 1 GiB of arrays and texts, take two seconds."""

_PLAIN = (bool, int, float, complex, str, bytes, bytearray, type(None), type(...))
_METHODS = (staticmethod, classmethod, property, *cached_property.__bases__)  # the last as in functools
_FUNCTIONS = ("__wrapped__", "fget", "fset", "fdel", "func")  # attributes of methods
_CODE = (FunctionType, type, ModuleType, *_METHODS)
_LIBRARIES = {"site-packages", "dist-packages"}
_OURS = (ROOT, "energon_cli", "megatron")


def identity_of(target: Any, *, reads_values: bool) -> dict[str, str]:
    """Return digests by name: of the code of a function, a class or another callable, and of each value that it reads.

    Functions and classes of the user count with their code, and modules and what installed ones define with name,
    version and file. Two values are equal if they pickle to equal parts. A value that cannot be compared is equal to no
    other one, and its name says so.

    Args:
        target: The function.
        reads_values: Compare globals, closures, defaults and attributes; else the code alone.
    """
    identity = _Identity(reads_values)
    code = identity.named(str(getattr(target, "__qualname__", type(target).__name__)), target)
    return {"source of the function": _hash(code).hex(), **identity.values}


class _Identity:
    def __init__(self, reads_values: bool) -> None:
        self.values: dict[str, str] = {}
        self._reads_values = reads_values
        self._left = _MAX_COST
        self._known: dict[int, tuple[Any, bytes]] = {}  # by id, which the objects keep while they are here
        self._modules: dict[str, bytes] = {}

    def named(self, name: str, value: Any) -> bytes:
        """Return the digest of code; note the digest of a value by its name."""
        left, label = self._left, f"{OF_THE_FUNCTION}{name}"
        try:
            digest = self._digest(value)
            if isinstance(value, _CODE) or not self._reads_values:
                return digest
        except Exception:  # noqa: BLE001 - the errors of pickle are of many types
            self._left, digest = left, uuid.uuid4().bytes
            label += f", which cannot be compared ({type(value).__name__}),"
        if self._reads_values:
            self.values[label] = _hash(self.values.get(label, "").encode(), digest).hex()
        return b""

    def _digest(self, value: Any) -> bytes:
        if type(value) in _PLAIN:
            return self._plain(value)
        if id(value) not in self._known:
            self._known[id(value)] = value, b"%d" % len(self._known)  # what a cycle leads back to
            self._known[id(value)] = value, self._compound(value)
        return self._known[id(value)][1]

    def _plain(self, value: Any) -> bytes:
        data = value if isinstance(value, bytes | bytearray) else ascii(value).encode()
        self._pay(len(data))
        return _hash(type(value).__name__.encode(), data) if self._reads_values else b""

    def _pay(self, size_bytes: int) -> None:
        self._left -= 1 + size_bytes // 4096
        if self._left < 0:
            raise OverflowError

    def _compound(self, value: Any) -> bytes:
        """Return the digest of code, of a collection, or of the parts of another object."""
        kind = type(value)
        if kind is FunctionType:
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, ModuleType):
            return self._module(vars(value))
        if isinstance(value, _METHODS) or hasattr(value, "__wrapped__"):  # such as the cache of a function
            return self._all(kind.__name__, (getattr(value, name, None) for name in _FUNCTIONS))
        if kind in (list, tuple):
            self._pay(8 * len(value))
            is_plain = all(type(each) in _PLAIN for each in value)  # then one text is much faster
            return self._plain(value) if is_plain else self._all(kind.__name__, value)
        if kind in (dict, MappingProxyType):
            return self._all("dict", ([*value], [*value.values()]))
        if kind in (set, frozenset):
            return _hash(b"set", *sorted(map(self._digest, value)))
        return self._object(value)

    def _all(self, kind: str, values: Iterable[Any]) -> bytes:
        return _hash(kind.encode(), *map(self._digest, values))

    def _object(self, value: Any) -> bytes:
        """Return the digest of what pickle would store of an object."""
        size_bytes = getattr(value, "nbytes", 0)
        self._pay(size_bytes if isinstance(size_bytes, int) else 0)
        if hasattr(type(value), "detach"):  # a tensor of torch, which pickles with an address
            flat = value.detach().cpu().contiguous().reshape(-1)
            facts = f"{type(value).__name__} {value.dtype} {tuple(value.shape)}".encode()
            return _hash(facts, flat.view(sys.modules["torch"].uint8).numpy()) if self._reads_values else b""
        reduce = copyreg.dispatch_table.get(type(value))
        parts = value.__reduce_ex__(4) if reduce is None else reduce(value)
        if isinstance(parts, str):
            return self._by_name(parts, str(getattr(value, "__module__", "")))
        return self._all("object", ([*part] if isinstance(part, Iterator) else part for part in parts))

    def _by_name(self, name: str, module: str) -> bytes:
        known = sys.modules.get(module)
        return _hash(name.encode(), self._module({"__name__": module} if known is None else vars(known)))

    def _module(self, names: Mapping[str, Any]) -> bytes:
        """Return the digest of the name, the version and the file of a module."""
        name, file = str(names.get("__name__")), Path(str(names.get("__file__")))
        if name not in self._modules:
            version = getattr(sys.modules.get(name.partition(".")[0]), "__version__", "")
            source = file.read_bytes() if file.suffix == ".py" and file.is_file() else b""
            self._modules[name] = _hash(canonical_name(name).encode(), str(version).encode(), source)
        return self._modules[name]

    def _function(self, function: FunctionType) -> bytes:
        code, names = function.__code__, function.__globals__
        if _is_installed(names):
            parts = [code.co_qualname.encode(), self._module(names)]
        else:
            read = {name: names[name] for name in sorted(_globals_of(code)) if name in names}
            defaults = function.__defaults__, function.__kwdefaults__
            given = {"the defaults": defaults, **vars(function)} if any(defaults) else vars(function)
            read |= {f"{name} of {function.__qualname__}": value for name, value in given.items()}
            parts = [_code_digest(code), *itertools.starmap(self.named, read.items())]
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                parts.append(self.named(name, cell.cell_contents))
            except ValueError:  # not yet assigned
                continue
        return _hash(b"function", *parts)

    def _class(self, described: type) -> bytes:
        module = sys.modules.get(described.__module__)
        if module is not None and _is_installed(vars(module)):
            return self._by_name(described.__qualname__, described.__module__)
        parts = [self._all(described.__qualname__, (type(described), *described.__bases__))]
        for name, value in sorted(vars(described).items()):
            # Python makes the other special names of a class, some with line numbers.
            if isinstance(value, _CODE) or not (name[0] == name[-1] == "_" or name == "_abc_impl"):
                parts += [name.encode(), self.named(f"{described.__qualname__}.{name}", value)]
        return _hash(b"class", *parts)


def _is_installed(names: Mapping[str, Any]) -> bool:
    """Return True for the names of a module of Python, of an installed package or of this one."""
    if str(names.get("__name__")).partition(".")[0] in (*_OURS, *sys.builtin_module_names):
        return True
    path = Path(str(names.get("__file__")))
    return not _LIBRARIES.isdisjoint(path.parts) or path.is_relative_to(sysconfig.get_path("stdlib"))


def _globals_of(code: CodeType) -> set[str]:
    """Return the names of globals that code reads, also in functions that it defines."""
    names = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(_globals_of(each) for each in code.co_consts if isinstance(each, CodeType)))


def _code_digest(code: CodeType) -> bytes:
    arguments = code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    constants = [
        _code_digest(each) if isinstance(each, CodeType) else _Identity(reads_values=True)._digest(each)  # noqa: SLF001
        for each in code.co_consts
    ]
    return _hash(code.co_code, code.co_exceptiontable, repr((arguments, names)).encode(), *constants)


def _hash(*parts: Any) -> bytes:
    """Return the SHA-256 of bytes, each with its length."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d " % memoryview(part).nbytes)
        digest.update(part)
    return digest.digest()
