"""``megatron.energon``: this library under the name by which existing training code imports it.

Every name and every submodule hands on the very objects of ``loader``, so that both names may be used side by side.
Nothing lies in ``megatron`` itself, which is a namespace that megatron-core shares.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from energon_cli.installation import check_alias

check_alias()

from loader import __all__ as _NAMES  # noqa: E402, N812 - only now is it known whose it is

# Imported here so that the name stays the function, whoever imports the module of that name later.
from .edataclass import edataclass as edataclass  # noqa: E402

if TYPE_CHECKING:
    from loader import *  # noqa: F403 - the same names, whatever they are
else:
    # Without what needs Lightning: `import *` must not ask for it.
    __all__ = [name for name in _NAMES if name != "MegatronDataModule"]

    _SUBMODULES = frozenset(
        {
            "av",
            "cache",
            "cli",
            "dataset_config",
            "epathlib",
            "errors",
            "flavors",
            "loader",
            "media",
            "metadataset",
            "rng",
            "sample_utils",
            "savable_loader",
            "source_info",
            "state",
            "task_encoder",
            "tools",
            "worker",
            "wrappers",
        }
    )

    def __getattr__(name: str) -> Any:
        if name in _NAMES:
            value = getattr(import_module("loader"), name)
        elif name in _SUBMODULES:  # code for megatron-energon finds them without importing them
            value = import_module(f".{name}", __name__)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value  # the next use finds it without coming here
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_NAMES, *_SUBMODULES})
