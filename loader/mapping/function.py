"""The function that a user runs over samples: found by module and name, so that workers import it themselves."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import pickle
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import ModuleType
from typing import Any

from ..errors import ConfigError, EnergonError, torch_needed
from ..own_names import is_own
from .identity import identity_of
from .user_call import CallTimeoutError, user_errors


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function, or a class whose instance each worker makes once and calls.

    Attributes:
        module: Name of the module, or path of a ``.py`` file.
        name: Name in the module, with dots for attributes.
        folder: Folder that workers import modules from first: the one in which the command was run.
        version: Text that the user changes when results change and the module's file does not.
        target: The function itself, where a program passes it; ``module`` and ``name`` are then for messages.
        token: Distinguishes functions that programs pass, such as two lambdas, which have one name; of a named one that
            is sent to workers, the SHA-256 of its source.
        is_factory: The target takes no arguments and returns the function, once in each worker, as a class does.
    """

    module: str
    name: str
    folder: str = ""
    version: str = ""
    target: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    token: str = ""
    is_factory: bool = field(default=False, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"

    def load(self) -> Callable[[Any], Any]:
        """Return the function; the instance of a class is made once in each process.

        Raises:
            ConfigError: There is no such module or name, or it cannot be called.
        """
        if self in _LOADED:
            return _LOADED[self]
        self._forget_earlier()
        function: Any = self.imported()
        if self.is_factory:
            function = function()
        elif inspect.isclass(function):
            hint = "its __init__ is called without arguments, once in each worker"
            with self._naming_errors("cannot make an instance of the class", hint):
                function = function()
            if not callable(function):
                raise ConfigError("expected a class with __call__", at=str(self))
        _LOADED.clear()
        loaded: Callable[[Any], Any] = function
        _LOADED[self] = loaded
        return loaded  # another thread may have loaded another one meanwhile

    def sent(self) -> UserFunction:
        """Return the function for workers, which may have run earlier commands with another source."""
        return self if self.token else replace(self, token=self.source_digest())

    def _forget_earlier(self) -> None:
        """Forget the modules that this worker has imported for a command with another source or working folder."""
        for earlier in _LOADED:
            is_same = (earlier.folder, earlier.token) == (self.folder, self.token)
            if is_same or earlier.module != self.module or not (earlier.folder and self.folder):
                continue
            inside = os.path.join(earlier.folder, "")
            for name, module in [*sys.modules.items()]:
                file = str(getattr(module, "__file__", None))
                is_ours = is_own(str(getattr(module, "__name__", ""))) or name.partition(".")[0] in (
                    "energon_cli",
                    "megatron",
                )
                if file.startswith(inside) and not file.startswith(sys.prefix) and not is_ours:
                    sys.modules.pop(name, None)
            importlib.invalidate_caches()

    def unload(self) -> None:
        """Forget the function in this process, and with it a model that it holds."""
        _LOADED.clear()  # it has one at most

    @property
    def needs_fork(self) -> bool:
        """True if worker processes can only inherit the function: a lambda, or one of the script or notebook."""
        if self.target is None:
            return False
        try:
            pickle.dumps(self.target)
        except Exception:  # noqa: BLE001 - the errors of pickle are of many types
            return True
        return self.module == "__main__"

    def imported(self) -> Any:
        """Return the function; of a class, no instance is made.

        Raises:
            ConfigError: There is no such module or name, or it cannot be called.
        """
        if self.target is not None:
            return self.target  # given_function has checked it
        attribute: Any = self._import_module()
        for name in self.name.split("."):
            if not hasattr(attribute, name):
                names = [each for each in vars(attribute) if not each.startswith("_")]
                raise ConfigError(
                    f"there is no {name!r} in {self.module}",
                    at=str(self),
                    hint=f"it has: {', '.join(names[:20])}" if names else None,
                )
            attribute = getattr(attribute, name)
        if not callable(attribute):
            kind = type(attribute).__name__
            raise ConfigError(f"expected a function or a class with __call__, found {kind}", at=str(self))
        return attribute

    @contextmanager
    def _naming_errors(self, what: str, hint: str) -> Iterator[None]:
        try:
            with torch_needed():
                yield
        except (EnergonError, CallTimeoutError):
            raise
        except user_errors() as error:
            raise ConfigError(f"{what}: {type(error).__name__}: {error}", at=str(self), hint=hint) from error

    def _import_module(self) -> ModuleType:
        if self.folder and sys.path[:1] != [self.folder]:
            sys.path[:] = [self.folder, *(path for path in sys.path if path != self.folder)]
        hint = "name a module of the working folder or an installed one, or a file: my_module:function,"
        with self._naming_errors(f"cannot import {self.module}", f"{hint} my_module.py:function"):
            if not self.module.endswith(".py"):
                return importlib.import_module(self.module)
            # A file gets the name of a module of its own, which pickle and dataclasses look up.
            path = os.path.join(self.folder, self.module)
            name = f"_energon_map_{hashlib.sha256(path.encode()).hexdigest()[:12]}"
            if name in sys.modules:
                return sys.modules[name]
            spec = importlib.util.spec_from_file_location(name, path)
            if spec is None or spec.loader is None:
                raise ImportError("this file is not a module")
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[name]
                raise
        return module

    def identity(self) -> dict[str, str]:
        """Return digests by name of all that the function computes by; see :func:`.identity_of`.

        Of a function by name, it is the file of its module; of one that a program passes with a version, its code
        alone, since the user says what else is the same.
        """
        if self.target is None:
            return {"source of the function": self.source_digest()}
        return identity_of(self.target, reads_values=not self.version)

    def source_digest(self) -> str:
        """Return the SHA-256 of the file of a function by name, or of its code if it is in no file."""
        target = self.imported()
        while isinstance(target, partial):
            target = target.func
        is_named = inspect.isclass(target) or inspect.isroutine(target)
        try:
            file = inspect.getsourcefile(target if is_named else type(target))
        except TypeError:  # of a builtin
            file = None
        if file is None or not os.path.isfile(file):
            return identity_of(target, reads_values=False)["source of the function"]
        with open(file, "rb") as source:
            return hashlib.sha256(source.read()).hexdigest()


_LOADED: dict[UserFunction, Callable[[Any], Any]] = {}
"""The last function of this process: a model is loaded once, whatever the number of tasks."""


def named_function(text: str, *, folder: str = "", version: str = "") -> UserFunction:
    """Return the function that ``module:name`` names.

    Raises:
        ConfigError: The text has another form.

    >>> named_function("quality:Score.fast")
    UserFunction(module='quality', name='Score.fast', folder='', version='', token='')
    """
    module, colon, name = text.rpartition(":")
    if not colon or not module or not all(part.isidentifier() for part in name.split(".")):
        raise ConfigError(
            f"expected MODULE:FUNCTION or FILE.py:FUNCTION, found {text!r}", hint="for example: quality:score"
        )
    return UserFunction(module, name, folder=folder, version=version)


def given_function(function: Callable[..., Any], *, version: str = "") -> UserFunction:
    """Return a function that a program passes."""
    if not callable(function):
        raise ConfigError(f"expected a function or a class, found {type(function).__name__}")
    named = function if inspect.isclass(function) or inspect.isroutine(function) else type(function)
    return UserFunction(
        str(getattr(named, "__module__", "") or ""),
        str(getattr(named, "__qualname__", type(named).__name__)),
        version=version,
        target=function,
        token=uuid.uuid4().hex,
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread in this process, and in processes that the block starts.

    As many workers as cores with as many threads each would spend most of their time waiting for each other. The
    variable ``OMP_NUM_THREADS`` has precedence, and a function may set another number.
    """
    name, torch = "OMP_NUM_THREADS", sys.modules.get("torch")
    if name in os.environ:
        yield
        return
    os.environ[name] = "1"  # of processes, and of a torch that is imported later
    threads = torch.get_num_threads() if torch is not None else os.cpu_count() or 1
    if torch is not None:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        del os.environ[name]
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(threads)
