"""The function that a user runs over samples: found by module and name, so that workers import it themselves."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType, ModuleType
from typing import Any

from ..errors import ConfigError, EnergonError


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function, or a class whose instance each worker makes once and calls.

    Attributes:
        module: Name of the module, or path of a ``.py`` file.
        name: Name in the module, with dots for attributes.
        folder: Folder that workers import modules from first: the one in which the command was run.
        version: Text that the user changes when results change and the module's file does not.
        digest: SHA-256 of the source in the process that sends tasks; empty before any are sent.
        target: The function itself, where a program passes it; ``module`` and ``name`` are then for messages.
    """

    module: str
    name: str
    folder: str = ""
    version: str = ""
    digest: str = ""
    target: Callable[..., Any] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"

    def load(self) -> Callable[[Any], Any]:
        """Return the function; the instance of a class is made once in each process.

        Raises:
            ConfigError: There is no such module or name, or it cannot be called.
        """
        function = _LOADED.get(self)
        if function is None:
            self._forget_earlier()
            function = self.target if self.target is not None else self._import()
            if inspect.isclass(function):
                function = _instance(function, self)
            if not callable(function):
                raise ConfigError(
                    f"expected a function or a class with __call__, found {type(function).__name__}", at=str(self)
                )
            _LOADED[self] = function
        return function

    def _forget_earlier(self) -> None:
        """Forget the modules of earlier commands that a worker has served with another source, or in another folder."""
        for earlier in [some for some in _LOADED if some.is_replaced_by(self)]:
            _LOADED.pop(earlier, None)
            inside = os.path.join(earlier.folder, "")
            for name, module in [*sys.modules.items()]:
                file = str(getattr(module, "__file__", None))
                is_ours = name.partition(".")[0] in ("loader", "energon_cli", "megatron")
                if file.startswith(inside) and not file.startswith(sys.prefix) and not is_ours:
                    sys.modules.pop(name, None)
            importlib.invalidate_caches()

    def is_replaced_by(self, other: UserFunction) -> bool:
        """Return True if a worker cannot have this function and another one, of the same module with another source."""
        is_sent = bool(self.digest and other.digest and self.folder)
        return is_sent and self.module == other.module and (self.folder, self.digest) != (other.folder, other.digest)

    def _import(self) -> Any:
        found: Any = self._import_module()
        for name in self.name.split("."):
            if not hasattr(found, name):
                names = [each for each in vars(found) if not each.startswith("_")]
                raise ConfigError(
                    f"there is no {name!r} in {self.module}",
                    at=str(self),
                    hint=f"it has: {', '.join(names[:20])}" if names else None,
                )
            found = getattr(found, name)
        return found

    def _import_module(self) -> ModuleType:
        if self.folder and sys.path[:1] != [self.folder]:
            sys.path[:] = [self.folder, *(path for path in sys.path if path != self.folder)]
        try:
            if not self.module.endswith(".py"):
                return importlib.import_module(self.module)
            path = os.path.join(self.folder, self.module)
            name = f"_energon_map_{hashlib.sha256(path.encode()).hexdigest()[:12]}"
            if name in sys.modules:
                return sys.modules[name]
            spec = importlib.util.spec_from_file_location(name, path)
            if spec is None or spec.loader is None:
                raise ImportError("this file is no module")  # noqa: TRY301 - as one that does not import
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module  # dataclasses and pickle look their module up
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[name]
                raise
        except EnergonError:
            raise
        except Exception as error:
            raise ConfigError(
                f"cannot import {self.module}: {type(error).__name__}: {error}",
                at=str(self),
                hint="name a module of the working folder or an installed one, or a file: my_module:function,"
                " my_module.py:function",
            ) from error
        return module

    def source_digest(self) -> str:
        """Return the SHA-256 of the file of the module, and of the code of a function that is in none."""
        target = self.target if self.target is not None else self._import()
        try:
            file = inspect.getsourcefile(
                target if inspect.isclass(target) or inspect.isroutine(target) else type(target)
            )
            if file is None:
                raise TypeError  # noqa: TRY301 - as of a builtin
            with open(file, "rb") as source:
                return hashlib.sha256(source.read()).hexdigest()
        except (OSError, TypeError):
            code = getattr(target, "__code__", None)
            return hashlib.sha256(code.co_code + repr(code.co_consts).encode() if code else b"").hexdigest()


_LOADED: dict[UserFunction, Callable[[Any], Any]] = {}
"""The functions of this process: a model is loaded once, whatever the number of tasks."""


def _instance(cls: type[Any], function: UserFunction) -> Any:
    try:
        return cls()
    except Exception as error:
        raise ConfigError(
            f"cannot make an instance of the class: {type(error).__name__}: {error}",
            at=str(function),
            hint="its __init__ is called without arguments, once in each worker",
        ) from error


def named_function(text: str, *, folder: str = "", version: str = "") -> UserFunction:
    """Return the function that ``module:name`` names.

    Raises:
        ConfigError: The text has another form.

    >>> named_function("quality:Score.fast")
    UserFunction(module='quality', name='Score.fast', folder='', version='', digest='', target=None)
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
        getattr(named, "__module__", "") or "",
        getattr(named, "__qualname__", repr(named)),
        version=version,
        target=function,
    )


class CallTimeoutError(Exception):
    """A call took longer than allowed."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Interrupt the block after some seconds: where signals reach it, which is the main thread of a process.

    Code that does not return to Python is not interrupted; the engine kills its process.

    Raises:
        CallTimeoutError: The time is over.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal calls it
        raise CallTimeoutError(f"it did not return within {seconds:g} s")

    earlier = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
