"""Options of commands whose tasks run in processes, on a cluster, or in shares of a scheduler."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from .options import shared_options

if TYPE_CHECKING:
    from loader.engine import Engine, Share

ENGINE_PARAMETERS = ("engine", "address", "share", "merge", "restart", "keep_results")
"""Names of the parameters, which ``--help`` of commands with many options leaves to ``--help-all``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """The engine of a command, as its options name it.

    Attributes:
        kind: ``"processes"``, ``"ray"`` or ``"dask"``.
        workers: Number of processes or actors; None for one per core of this machine, or of the cluster.
    """

    kind: str
    address: str | None
    workers: int | None
    share: Share | None
    merge: bool
    restart: bool
    keep_results: bool

    @property
    def is_default(self) -> bool:
        """True if no option was given, so that a command that needs no workers takes none."""
        return self.kind == "processes" and self.workers is None and self.share is None and not self.merge

    @contextmanager
    def open(self, *, gpus: float = 0.0, apart: bool = False) -> Iterator[Engine]:
        """Connect to the cluster, if there is one, and yield the engine.

        Args:
            gpus: GPUs of each worker.
            apart: Run the tasks in other processes, also with one worker: code of a user may end its process.
        """
        from loader.engine import Engine, gpu_environments, open_dask_executor, open_ray_executor, usable_cores

        with ExitStack() as stack:
            executor = None
            if self.kind == "ray":
                executor = stack.enter_context(open_ray_executor(self.address, workers=self.workers, gpus=gpus))
            elif self.kind == "dask":
                executor = stack.enter_context(open_dask_executor(self.address or ""))
            for name in ("distributed", "distributed.client", "tornado.application", "ray.util.client.logsclient"):
                logging.getLogger(name).setLevel(logging.CRITICAL)  # the errors of tasks tell more
            environments = gpu_environments(gpus) if gpus and executor is None else ()
            yield Engine(
                workers=self.workers or len(environments) or usable_cores(),
                executor=executor,
                environments=environments,
                stopped_s=math.inf if apart and executor is None else None,
                share=self.share,
                merge=self.merge,
                restart=self.restart,
                keeps_results=self.keep_results,
            )


def engine_options(
    function: Callable[..., None], *, flags: Sequence[str] = (), default_workers: str = "one per core"
) -> Callable[..., None]:
    """Add the options of engines; the function gets them, with ``--num-workers``, as ``engine: EngineChoice``.

    Args:
        flags: More spellings of ``--num-workers``.
        default_workers: The number of workers without ``--num-workers``, for the help.
    """
    workers_help = f"Number of worker processes.  [default: {default_workers}]"
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
        type=click.Choice(["processes", "ray", "dask"]),
        default="processes",
        show_default=True,
        help="Run the tasks in processes of this machine, or on a cluster.",
    )
    @click.option(
        "--address",
        *address_flags,
        metavar="ADDRESS",
        help="Address of the cluster: auto or host:6379 of Ray; tcp://host:8786, or its file, of Dask's scheduler.",
    )
    @click.option(
        "--share",
        *share_flags,
        metavar="I/N",
        help="Run only share I of N, for a job array; auto reads it from Slurm, torchrun or MPI. Then --merge.",
    )
    @click.option("--merge", is_flag=True, help="Join the results of all shares.")
    @wraps(function)
    def with_engine(*arguments: Any, **options: Any) -> None:
        from loader.engine import parse_share
        from loader.errors import ConfigError

        # Check the options, and pass them as one.
        kind, address, text = options.pop("engine"), options.pop("address"), options.pop("share")
        if kind == "dask" and not address:
            raise click.UsageError("--engine dask requires --address ADDRESS of the scheduler, or its file.")
        if kind == "processes" and address:
            raise click.UsageError("--address is valid only with --engine ray or --engine dask.")
        merge = options.pop("merge")
        if merge and text is not None:
            raise click.UsageError("--merge joins the shares: pass it without --share.")
        try:
            share = None if text is None else parse_share(text, os.environ)
        except ConfigError as error:
            hint = f". Hint: {error.hint}" if error.hint else ""
            raise click.BadParameter(f"{error.message}{hint}", param_hint="--share") from error
        # Pass all as one choice.
        choice = EngineChoice(
            kind=kind,
            address=address,
            workers=options.pop("num_workers"),
            share=share,
            merge=merge,
            restart=options.pop("restart", False),
            keep_results=options.pop("keep_results", False),
        )
        function(*arguments, engine=choice, **options)

    return with_engine
