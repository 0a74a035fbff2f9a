"""The rank that a launcher gave to a process, in environments as clusters set them."""

from __future__ import annotations

import pytest

from loader.engine.share import launched_rank
from loader.errors import ConfigError

BATCH = {"SLURM_JOB_ID": "71", "SLURM_NTASKS": "8", "SLURM_NPROCS": "8", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
ARRAY = BATCH | {"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "16"}


def step(rank: int, tasks: int, number: int = 0) -> dict[str, str]:
    """Return what srun sets in the tasks of a step, within a job of eight tasks."""
    own = {"SLURM_STEP_ID": str(number), "SLURM_STEP_NUM_TASKS": str(tasks), "SLURM_PROCID": str(rank)}
    return BATCH | {"SLURM_NTASKS": str(tasks)} | own


def openmpi(rank: int, size: int) -> dict[str, str]:
    return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size), "PMIX_RANK": str(rank)}


def pmi(rank: int, size: int) -> dict[str, str]:
    return {"PMI_RANK": str(rank), "PMI_SIZE": str(size), "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "0"}


TORCHRUN = {"RANK": "5", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (step(3, 4), "rank 3 of 4 (SLURM_PROCID=3, SLURM_STEP_NUM_TASKS=4)"),
        (step(1, 2) | {"PMIX_RANK": "1"}, "rank 1 of 2 (SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=2)"),
        (ARRAY | step(3, 4), "rank 3 of 4 (SLURM_PROCID=3, SLURM_STEP_NUM_TASKS=4)"),
        (step(1, 2) | {"SLURM_STEP_NUM_TASKS": ""}, "rank 1 of 2 (SLURM_PROCID=1, SLURM_NTASKS=2)"),
        (openmpi(7, 8), "rank 7 of 8 (OMPI_COMM_WORLD_RANK=7, OMPI_COMM_WORLD_SIZE=8)"),
        (pmi(4, 5), "rank 4 of 5 (PMI_RANK=4, PMI_SIZE=5)"),
        (
            {"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "2"},
            "rank 0 of 2 (MV2_COMM_WORLD_RANK=0, MV2_COMM_WORLD_SIZE=2)",
        ),
        (TORCHRUN, "rank 5 of 16 (RANK=5, WORLD_SIZE=16)"),
    ],
)
def test_each_launcher_tells_rank_and_ranks(environ: dict[str, str], expected: str) -> None:
    assert str(launched_rank(environ)) == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param(step(1, 4) | TORCHRUN, (5, 16), id="srun starts a torchrun on each node"),
        pytest.param(step(2, 4) | TORCHRUN | {"RANK": "0", "WORLD_SIZE": "1"}, (0, 1), id="four runs of one rank"),
        pytest.param(step(1, 2) | openmpi(9, 16), (9, 16), id="mpirun starts its daemons by srun"),
        pytest.param(step(0, 1, number=5) | openmpi(3, 4), (3, 4), id="a single daemon"),
        pytest.param(step(1, 2) | pmi(3, 8), (3, 8), id="Hydra starts its proxies by srun"),
        pytest.param(step(3, 4) | pmi(0, 1), (3, 4), id="srun in an interactive shell that had PMI"),
        pytest.param(step(3, 4) | {"WORLD_SIZE": "4"}, (3, 4), id="a script exports WORLD_SIZE for srun"),
    ],
)
def test_the_innermost_launcher_decides(environ: dict[str, str], expected: tuple[int, int]) -> None:
    launched = launched_rank(environ)
    assert launched is not None
    assert (launched.rank, launched.world_size) == expected


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({}, id="no cluster"),
        pytest.param(BATCH, id="batch script"),
        pytest.param(BATCH | {"SLURM_STEP_ID": "4294967291"}, id="batch step"),
        pytest.param(ARRAY, id="job array"),
        pytest.param({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8"}, id="salloc"),
        pytest.param(step(0, 1, number=0xFFFFFFFA) | {"SLURM_NTASKS": "8", "PMIX_RANK": "0"}, id="interactive step"),
        pytest.param({"RANK": "", "WORLD_SIZE": ""}, id="empty"),
        pytest.param({"RANK": "3"}, id="a rank of something"),
    ],
)
def test_a_process_in_an_allocation_has_no_rank(environ: dict[str, str]) -> None:
    assert launched_rank(environ) is None


@pytest.mark.parametrize("environ", [step(0, 1), openmpi(0, 1), pmi(0, 1), {"RANK": "0", "WORLD_SIZE": "1"}])
def test_a_single_process_is_rank_0_of_1(environ: dict[str, str]) -> None:
    launched = launched_rank(environ)
    assert launched is not None
    assert (launched.rank, launched.world_size) == (0, 1)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"RANK": "4", "WORLD_SIZE": "4"}, "expected RANK below WORLD_SIZE, found 4 and 4"),
        (step(4, 2), "expected SLURM_PROCID below SLURM_STEP_NUM_TASKS, found 4 and 2"),
        ({"RANK": "first", "WORLD_SIZE": "4"}, "expected a number in RANK, found 'first'"),
        ({"PMI_RANK": "0", "PMI_SIZE": "-2"}, "expected a number in PMI_SIZE, found '-2'"),
        ({"WORLD_SIZE": "4"}, "expected RANK next to WORLD_SIZE=4, found none"),
        ({"PMIX_RANK": "2"}, "expected the number of ranks next to PMIX_RANK=2, found none"),
    ],
)
def test_contradictions_are_errors_that_name_the_variables(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        launched_rank(environ)
