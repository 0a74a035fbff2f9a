"""Functions that are called before and after a process forks."""

import os
import weakref
from collections.abc import Callable
from typing import Any

_Callback = Callable[..., Any]


class WeakCallbacks:
    """Functions to be called later, which are dropped when nothing else refers to them.

    >>> callbacks = WeakCallbacks()
    >>> callbacks.add_hook(print)
    >>> callbacks.run("hello")
    hello
    """

    def __init__(self) -> None:
        self._hooks: dict[object, Callable[[], _Callback | None]] = {}  # by identity: equal objects are called each

    def add_hook(self, callable: _Callback, make_persistent: bool = False) -> None:  # noqa: A002 - a public name
        """Add a function or a method; one that is added again is still called once.

        Args:
            callable: The function. A method is dropped together with its object.
            make_persistent: Keep the function even if nothing else refers to it, such as a lambda.
        """
        # A bound method is identified by its object and function.
        method = (getattr(callable, "__self__", None), getattr(callable, "__func__", None))
        is_method = None not in method
        key = tuple(map(id, method)) if is_method else id(callable)  # each access to a method makes an object of it
        hooks = self._hooks  # the reference must not keep this object
        if make_persistent:
            hooks[key] = lambda: callable
            return
        if key in hooks:
            return

        # Hooks must not keep their object alive: a weak reference removes the hook with it.
        def drop(_reference: object) -> None:
            hooks.pop(key, None)

        try:
            hooks[key] = weakref.WeakMethod(callable, drop) if is_method else weakref.ref(callable, drop)
        except TypeError:  # built-in functions have no weak references, and live as long as their module
            hooks[key] = lambda: callable

    def run(self, *args: Any, **kwargs: Any) -> None:
        """Call the functions in the order in which they were added. An error of one is raised, and ends the calls."""
        for reference in list(self._hooks.values()):
            function = reference()
            if function is not None:
                function(*args, **kwargs)


_before_fork, _after_in_child, _after_in_parent = WeakCallbacks(), WeakCallbacks(), WeakCallbacks()
os.register_at_fork(before=_before_fork.run, after_in_child=_after_in_child.run, after_in_parent=_after_in_parent.run)


def before_fork_hook(callable: Callable[[], None], make_persistent: bool = False) -> None:  # noqa: A002
    """Call a function before this process forks.

    Args:
        callable: The function or method.
        make_persistent: Keep the function even if nothing else refers to it, such as a lambda.
    """
    _before_fork.add_hook(callable, make_persistent)


def after_in_child_fork_hook(callable: Callable[[], None], make_persistent: bool = False) -> None:  # noqa: A002
    """Call a function in each process that is forked from this one.

    Args:
        callable: The function or method.
        make_persistent: Keep the function even if nothing else refers to it, such as a lambda.
    """
    _after_in_child.add_hook(callable, make_persistent)


def after_in_parent_fork_hook(callable: Callable[[], None], make_persistent: bool = False) -> None:  # noqa: A002
    """Call a function in this process after it has forked.

    Args:
        callable: The function or method.
        make_persistent: Keep the function even if nothing else refers to it, such as a lambda.
    """
    _after_in_parent.add_hook(callable, make_persistent)


class _ForkMethods:
    """Methods that a subclass overrides."""

    def __before_fork__(self) -> None:
        """Prepare for a fork; called in the process that forks."""

    def __after_in_child_fork__(self) -> None:
        """Adapt the copy in the new process: open files again, start threads."""

    def __after_in_parent_fork__(self) -> None:
        """Continue after a fork; called in the process that forked."""


class ForkMixin(_ForkMethods):
    """A base class of objects whose methods are called when their process forks.

    Only objects whose ``__init__`` ran are called: pickle and copy make objects without it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _register(self)


class DataclassForkMixin(_ForkMethods):
    """As :class:`ForkMixin`, for dataclasses: it registers in ``__post_init__``."""

    def __post_init__(self) -> None:
        _register(self)


def _register(target: _ForkMethods) -> None:
    before_fork_hook(target.__before_fork__)
    after_in_child_fork_hook(target.__after_in_child_fork__)
    after_in_parent_fork_hook(target.__after_in_parent_fork__)
