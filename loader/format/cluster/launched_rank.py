"""The rank that a launcher gave to this process, as the environment shows it.

==============  =============================================  ==================================================
torchrun        ``RANK``, ``WORLD_SIZE``                       also set by hand, and by other launchers for torch
Open MPI        ``OMPI_COMM_WORLD_RANK``, ``…_SIZE``
MVAPICH         ``MV2_COMM_WORLD_RANK``, ``…_SIZE``
PMI             ``PMI_RANK``, ``PMI_SIZE``                     MPICH, Intel MPI (Hydra), Flux, ``srun --mpi=pmi2``
srun            ``SLURM_PROCID``, ``SLURM_STEP_NUM_TASKS``     in a step that ``srun`` started
==============  =============================================  ==================================================

The first of them that is set decides, since launchers nest in this order: ``srun`` starts one torchrun a node, and
``mpirun`` starts its daemons by ``srun``. MPI and PMI with a single process decide only if there is no step of several
tasks: an interactive shell that ``srun`` started leaves their variables to the steps that begin in it. Those of a Slurm
*job* (``SLURM_NTASKS``, the array) show what was allocated, and not that several processes were started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...errors import ConfigError

_TORCHRUN = ("RANK", "WORLD_SIZE")
_MPI = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
_STEP_ID, _STEP_RANK, _STEP_SIZES = "SLURM_STEP_ID", "SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
_MAX_STEP_ID = 0xFFFFFFEF  # of steps that users start; batch scripts, interactive shells and prologs have higher ones


class LaunchedRank(NamedTuple):
    """A rank of several processes that a launcher started, or of a single one.

    >>> print(launched_rank({"RANK": "3", "WORLD_SIZE": "8"}))
    rank 3 of 8 (RANK=3, WORLD_SIZE=8)
    """

    rank: int
    world_size: int
    variables: str  # the variables that show it, with their values

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world_size} ({self.variables})"


def launched_rank(environ: Mapping[str, str]) -> LaunchedRank | None:
    """Return the rank that a launcher gave to this process; None if no launcher started it.

    >>> launched_rank({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"})  # a batch script, without srun
    """
    if _is_set(environ, *_TORCHRUN):
        return _rank_in(environ, *_TORCHRUN)
    single = None
    for names in (*_MPI, *_names_of_step(environ)):
        if _is_set(environ, *names):
            rank = _rank_in(environ, *names)
            if rank.world_size > 1:
                return rank
            single = single or rank
    if single is None and environ.get("WORLD_SIZE", "1") not in ("", "1"):
        raise ConfigError(f"expected RANK next to WORLD_SIZE={environ['WORLD_SIZE']}, found none")
    if single is None and environ.get("PMIX_RANK", "0") not in ("", "0"):  # an interactive shell has rank 0 of one
        raise ConfigError(f"expected the number of ranks next to PMIX_RANK={environ['PMIX_RANK']}, found none")
    return single


def _names_of_step(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    step = environ.get(_STEP_ID, "")
    if not (step.isascii() and step.isdecimal() and int(step) <= _MAX_STEP_ID):
        return []
    return [(_STEP_RANK, size) for size in _STEP_SIZES if environ.get(size)][:1]


def _is_set(environ: Mapping[str, str], *names: str) -> bool:
    return all(environ.get(name) for name in names)


def _rank_in(environ: Mapping[str, str], rank: str, size: str) -> LaunchedRank:
    launched = LaunchedRank(
        number_in(environ, rank), number_in(environ, size), f"{rank}={environ[rank]}, {size}={environ[size]}"
    )
    if launched.rank >= launched.world_size:
        raise ConfigError(f"expected {rank} below {size}, found {environ[rank]} and {environ[size]}")
    return launched


def number_in(environ: Mapping[str, str], name: str, *, default: int | None = None) -> int:
    """Return the number in a variable.

    Args:
        default: The result if the variable is empty or not set; None: that is an error.
    """
    text = environ.get(name, "")
    if not text and default is not None:
        return default
    if not (text.isascii() and text.isdecimal()):
        raise ConfigError(f"expected a number in {name}, found {text!r}")
    return int(text)
