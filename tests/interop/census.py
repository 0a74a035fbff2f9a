"""List the public names, parameters and attributes of ``megatron.energon``, and compare two lists.

usage: python tests/interop/census.py list               print every row, one a line
       python tests/interop/census.py lacking FILE       print the rows of FILE that this ``megatron.energon`` lacks
       python tests/interop/census.py update PEER_PYTHON rewrite the golden files

Run with the Python of an environment, ``list`` describes the ``megatron.energon`` of that environment. A row is

    module                           megatron.energon.flavors
    name in a module                 megatron.energon.flavors:VQASample
    parameter of a callable          megatron.energon:get_loader(dataset)
    attribute or method of a class   megatron.energon.flavors.vqa:VQASample.image
    parameter of a method            megatron.energon.worker:WorkerConfig.worker_seed(override_global_rank)

Names are listed in each module that has them; members and parameters only in the module that defines the object. A
class or function that a module imports for its own use has the module that defines it at the end of its row.
``golden/megatron_energon/peer_names.txt`` has all rows of version 7.4.1, ``lacking.txt`` those that this library lacks,
below the reason: a line that begins with ``# ``. A missing module or class takes one row, without its members. What a
module imports for its own use is not listed: code can import it from the module that defines it, or that one is listed.
"""

from __future__ import annotations

import contextlib
import dis
import importlib
import importlib.util
import inspect
import io
import os
import pkgutil
import subprocess
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = "megatron.energon"
GOLDEN = Path(__file__).parents[1] / "golden" / "megatron_energon"
PEER_NAMES = GOLDEN / "peer_names.txt"
LACKING = GOLDEN / "lacking.txt"
NO_REASON = "no reason yet"
OPTIONAL = ("torchvision", "numba")  # imported by modules of the peer, but not installed: replaced by empty classes


def main() -> None:
    command, *arguments = sys.argv[1:] or [""]
    if command == "list":
        with contextlib.redirect_stdout(io.StringIO()):
            rows = list_names()
        print("\n".join(rows))
    elif command == "lacking" and len(arguments) == 1:
        print("\n".join(lacking(read_rows(Path(arguments[0]).read_text()))))
    elif command == "update" and len(arguments) == 1:
        update(arguments[0])
    else:
        sys.exit(__doc__)


def read_rows(text: str) -> dict[str, str]:
    """Return the rows of a list, each with the module that defines an imported name; empty for others."""
    return {row: home for row, _, home in (line.partition(" ") for line in text.splitlines())}


def peer_names(python: str) -> str:
    """Return the list of the ``megatron.energon`` that a Python interpreter imports."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, __file__, "list"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"{command} exited with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def update(python: str) -> None:
    """Rewrite both golden files; rows that are lacking for the first time go below `NO_REASON`."""
    PEER_NAMES.write_text(peer_names(python))
    known = read_reasons()
    sections: dict[str, list[str]] = {reason: [] for reason in dict.fromkeys(known.values())}
    for row in lacking(read_rows(PEER_NAMES.read_text())):
        sections.setdefault(known.get(row, NO_REASON), []).append(row)
    LACKING.write_text("\n".join(f"# {reason}\n" + "\n".join(rows) + "\n" for reason, rows in sections.items() if rows))


def read_reasons() -> dict[str, str]:
    """Return the reason of each row in `LACKING`."""
    reasons: dict[str, str] = {}
    reason = NO_REASON
    for line in LACKING.read_text().splitlines() if LACKING.exists() else ():
        if line.startswith("# "):
            reason = line.removeprefix("# ")
        elif line:
            reasons[line] = reason
    return reasons


# -------------------------------------------------------------------------------------------------------- list


def list_names() -> list[str]:
    """Return all rows of the ``megatron.energon`` that this interpreter imports."""
    replace_optional_packages()
    return sorted({row for module in import_modules() for row in rows_of_module(module)})


def replace_optional_packages() -> None:
    """Let modules that need an optional package be imported: any attribute of it is an empty class."""
    for name in OPTIONAL:
        if importlib.util.find_spec(name) is None:
            for path in (name, f"{name}.transforms", f"{name}.transforms.v2", f"{name}.transforms.functional"):
                sys.modules[path] = _EmptyClasses(path)


class _EmptyClasses(types.ModuleType):
    """A module in which any public name is an empty class, which also works as a decorator."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if f"{self.__name__}.{name}" in sys.modules:
            return sys.modules[f"{self.__name__}.{name}"]
        value = type(name, (), {"__module__": self.__name__, "__init__": lambda self, *_, **__: None})
        setattr(self, name, value)
        return value


def import_modules() -> Iterator[types.ModuleType]:
    """Import and yield all public modules of ``megatron.energon``; those that cannot be imported are skipped.

    So is the module of ``energon mount``, which can be imported only where the system has libfuse.
    """
    root = importlib.import_module(ROOT)
    yield root
    found = pkgutil.walk_packages(root.__path__, f"{ROOT}.", onerror=lambda _: None)
    names = {module.name for module in found}
    with contextlib.suppress(ImportError):  # this library makes packages and modules that are no files
        names |= {f"{ROOT}.{name}" for name in importlib.import_module(f"{ROOT}.alias_modules").MODULES}
        files = [path.relative_to(root.__path__[0]).with_suffix("") for path in Path(root.__path__[0]).rglob("*.py")]
        names |= {f"{ROOT}.{'.'.join(file.parts)}" for file in files if file.name != "__init__"}
    for name in sorted(names):
        if name != f"{ROOT}.tools.mount" and not any(part.startswith("_") for part in name.split(".")):
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield importlib.import_module(name)


def rows_of_module(module: types.ModuleType) -> Iterator[str]:
    """Yield the rows of a module, its names and their members."""
    yield module.__name__
    for name in sorted(vars(module)):
        value = getattr(module, name)
        if name.startswith("_") or inspect.ismodule(value) or not is_own(value):
            continue
        row, home = f"{module.__name__}:{name}", getattr(value, "__module__", None)
        is_import = (inspect.isclass(value) or inspect.isroutine(value)) and home != module.__name__
        yield f"{row} {home}" if is_import and not hasattr(module, "__path__") else row
        if home == module.__name__:
            yield from rows_of_members(row, value)


def is_own(value: Any) -> bool:
    """Check whether an object belongs to the package: it is defined there, or is a constant."""
    home = getattr(value, "__module__", None) or ""
    if home.split(".")[0] == "typing" or type(value).__module__ == "typing":
        return False  # annotations and type variables
    if inspect.isclass(value) or inspect.isroutine(value):
        return home == ROOT or home.startswith(f"{ROOT}.")
    return type(value).__module__.split(".")[0] not in ("__future__", "logging", "re")


def rows_of_members(row: str, value: Any) -> Iterator[str]:
    """Yield the rows of a callable's parameters and of a class's public members."""
    yield from (f"{row}({name})" for name in parameters(value))
    if not inspect.isclass(value):
        return
    for name in sorted({*vars(value), *vars(value).get("__annotations__", ())}):
        if not name.startswith("_"):
            yield f"{row}.{name}"
            member = getattr(value, name, None)
            if inspect.isroutine(member):
                yield from (f"{row}.{name}({parameter})" for parameter in parameters(member))


def parameters(value: Any) -> list[str]:
    """Return the names of a callable's public parameters, also of those that `**options: Unpack[…]` declares."""
    function = value.__init__ if inspect.isclass(value) and inspect.isfunction(value.__init__) else value
    found: list[str] = list(getattr(function, "__other_parameters__", ()))
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return found
    for name, parameter in signature.parameters.items():
        declared = str(parameter.annotation).removeprefix("Unpack[").removesuffix("]")
        if parameter.kind is parameter.VAR_KEYWORD:
            options = getattr(inspect.unwrap(function), "__globals__", {}).get(declared)
            found += getattr(options, "__annotations__", {})
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            found.append(name)
    return [name for name in found if not name.startswith("_") and name not in ("self", "cls")]


# ------------------------------------------------------------------------------------------------------- compare


def lacking(rows: dict[str, str]) -> list[str]:
    """Return the rows that this interpreter's ``megatron.energon`` lacks, without members of what is missing."""
    replace_optional_packages()
    missing: set[str] = set()
    for row, home in sorted(rows.items(), key=lambda item: bool(item[1])):  # imported names last
        defined = f"{home}:{row.partition(':')[2]}"
        is_import = bool(home) and (has(defined) or not missing.isdisjoint({defined, *owners(defined)}))
        if not is_import and not missing.intersection(owners(row)) and not has(row):
            missing.add(row)
    return sorted(missing)


def owners(row: str) -> Iterator[str]:
    """Yield the module, name and method that a row belongs to."""
    path, colon, name = row.partition(":")
    for part in (*path.split("."), ""):  # each package above a module is a row, too
        if part:
            yield path
            path = path.rpartition(".")[0]
    if colon:
        outer = row
        for end in ("(", "."):
            position = outer.rfind(end)
            if position > len(row) - len(name):
                outer = outer[:position]
                yield outer


def has(row: str) -> bool:
    """Check whether this interpreter's ``megatron.energon`` has the object of a row."""
    path, _, name = row.partition(":")
    name, _, parameter = name.rstrip(")").partition("(")
    name, _, member = name.partition(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value: Any = importlib.import_module(path)
            if name:
                value = getattr(value, name)
        except (ImportError, AttributeError):
            return False
    if member and not has_member(value, member):
        return False
    if not parameter:
        return True
    target = getattr(value, member, None) if member else value
    if parameter in parameters(target):
        return True
    # A class whose parameters cannot be read as a signature accepts what it declares as a field.
    return inspect.isclass(target) and has_member(target, parameter)


def has_member(cls: type, name: str) -> bool:
    """Check whether a class or its bases have an attribute, a method, a declared field, or set it in ``__init__``."""
    if hasattr(cls, name):
        return True
    return any(name in vars(base).get("__annotations__", ()) or name in set_attributes(base) for base in cls.__mro__)


def set_attributes(cls: type) -> set[Any]:
    """Return the names of the attributes that the class's own ``__init__`` sets."""
    function = vars(cls).get("__init__")
    if not inspect.isfunction(function):
        return set()
    return {code.argval for code in dis.get_instructions(function) if code.opname == "STORE_ATTR"}


if __name__ == "__main__":
    main()
