"""Options of commands whose tasks run in processes, on a cluster, or in shares of a scheduler."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from .options import NameChoice, flag_option, shared_options

if TYPE_CHECKING:
    from loader.engine import Engine, Share

ENGINE_PARAMETERS = ("engine", "address", "share", "merge", "restart", "keep_results")
"""Names of the parameters, which ``--help`` of commands with many options leaves to ``--help-all``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """The engine of a command, as its options name it.

    Attributes:
        kind: Name of the engine, such as ``"processes"``, ``"ray"`` or ``"dask"``.
        num_workers: Number of processes or actors; None for one per core of this machine, or of the cluster.
    """

    kind: str
    address: str | None
    num_workers: int | None
    share: Share | None
    merge: bool
    restart: bool
    keep_results: bool

    @property
    def is_default(self) -> bool:
        """True if no option was given, so that a command that needs no workers takes none."""
        return self.kind == "processes" and self.num_workers is None and self.share is None and not self.merge

    @contextmanager
    def open(self, *, gpus: float = 0.0, apart: bool = False) -> Iterator[Engine]:
        """Connect to the cluster, if there is one, and yield the engine.

        Args:
            gpus: GPUs of each worker.
            apart: Run the tasks in other processes, also with one worker: code of a user may end its process.
        """
        from loader.engine import named_engine

        with named_engine(self.kind).open(self.address, self.num_workers, gpus) as engine:
            for name in ("distributed", "distributed.client", "tornado.application", "ray.util.client.logsclient"):
                logging.getLogger(name).setLevel(logging.CRITICAL)  # the errors of tasks tell more
            yield replace(
                engine,
                apart=apart,
                share=self.share,
                merge=self.merge,
                restart=self.restart,
                keeps_results=self.keep_results,
            )


def _parsed_share(text: str) -> Share:
    from loader.engine import parse_share
    from loader.errors import ConfigError

    try:
        return parse_share(text, os.environ)
    except ConfigError as error:
        hint = f". Hint: {error.hint}" if error.hint else ""
        raise click.BadParameter(f"{error.message}{hint}", param_hint="--share") from error


def engine_options(
    function: Callable[..., None], *, flags: Sequence[str] = (), default_workers: str = "one per core"
) -> Callable[..., None]:
    """Add the options of engines; the function gets them, with ``--num-workers``, as ``engine: EngineChoice``.

    Args:
        flags: More spellings of ``--num-workers``.
        default_workers: The number of workers without ``--num-workers``, for the help.
    """
    workers_help = f"Run this many worker processes.  [default: {default_workers}]"
    function = shared_options("num_workers", flags=flags, help=workers_help)(function)
    function = shared_options("restart", "keep_results")(function)
    return cluster_options(function)


def cluster_options(
    function: Callable[..., None], *, share_flags: Sequence[str] = (), address_flags: Sequence[str] = ()
) -> Callable[..., None]:
    """Add the options of engines to a command that has ``--num-workers`` and cannot keep results of other options.

    Args:
        share_flags: More spellings of ``--share``.
        address_flags: More spellings of ``--address``.
    """

    @click.option(
        "--engine",
        type=NameChoice(["processes", "ray", "dask"], "engines"),
        default="processes",
        help="Run the tasks in processes of this machine, or on a cluster.",
    )
    @click.option(
        "--address",
        *address_flags,
        metavar="ADDRESS",
        help="Connect to this cluster: auto or host:6379 for Ray; tcp://host:8786, or its scheduler's file, for Dask."
        " Without it, a cluster starts on this machine.",
    )
    @click.option(
        "--share",
        *share_flags,
        metavar="I/N",
        help="Run only share I of N, in a job array; auto asks Slurm, torchrun or MPI. Afterwards, run with --merge.",
    )
    @flag_option("--merge", help="Join the results of all shares.")
    @wraps(function)
    def with_engine(*arguments: Any, **options: Any) -> None:
        from loader.engine import engines_with, named_engine

        # Check the options together, and pass them as one.
        kind, text = options.pop("engine"), options.pop("share")
        share = None if text is None else _parsed_share(text)
        others = [each.name for each in fields(EngineChoice) if each.name not in ("kind", "share")]
        choice = EngineChoice(kind=kind, share=share, **{name: options.pop(name, False) for name in others})
        if choice.address and not named_engine(choice.kind).takes_address:
            valid = [f"--engine {name}" for name in engines_with("takes_address")]
            raise click.UsageError(f"--address is valid only with {' or '.join(valid)}.")
        if choice.merge and choice.share is not None:
            raise click.UsageError("--merge joins the shares: pass it without --share.")
        function(*arguments, engine=choice, **options)

    return with_engine
