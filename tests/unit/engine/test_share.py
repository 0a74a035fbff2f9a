"""Shares of a job, named by a flag or by the environment of a cluster."""

from __future__ import annotations

import re

import pytest

from loader.engine.share import COMMAND_LINE, Share, command_with, parse_share
from loader.errors import ConfigError


def array(task: int, *, count: int, first: int = 1, step: int = 1, last: int | None = None) -> dict[str, str]:
    return {
        "SLURM_ARRAY_TASK_ID": str(task),
        "SLURM_ARRAY_TASK_COUNT": str(count),
        "SLURM_ARRAY_TASK_MIN": str(first),
        "SLURM_ARRAY_TASK_MAX": str(first + (count - 1) * step if last is None else last),
        "SLURM_ARRAY_TASK_STEP": str(step),
        "RANK": "7",  # the array counts
        "WORLD_SIZE": "8",
        "SLURM_PROCID": "0",
        "SLURM_NTASKS": "1",
    }


def step(rank: int, processes: int, *, number: int = 0) -> dict[str, str]:
    """Return what srun sets in the processes of a step."""
    return {
        "SLURM_STEP_ID": str(number),
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_NUM_TASKS": str(processes),
        "SLURM_NTASKS": str(processes),
    }


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (array(3, count=64), Share(3, 64)),
        (array(0, count=4, first=0), Share(1, 4)),
        (array(8, count=5, first=0, step=2), Share(5, 5)),
        ({"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "3"}, Share(3, 3)),
        (array(1, count=16) | step(0, 4), Share(1, 64)),
        (array(3, count=16) | step(2, 4), Share(11, 64)),
        (array(15, count=16, first=0) | step(3, 4), Share(64, 64)),
        (array(3, count=16) | step(0, 1), Share(3, 16)),
        (array(3, count=16) | step(0, 1, number=0xFFFFFFFB), Share(3, 16)),  # the batch script, without srun
        (step(1, 2) | {"RANK": "0", "WORLD_SIZE": "1"}, Share(1, 1)),  # a single process of torchrun on each node
        ({"PMI_RANK": "2", "PMI_SIZE": "5"}, Share(3, 5)),
        ({"RANK": "0", "WORLD_SIZE": "8"}, Share(1, 8)),
        ({"RANK": "7", "WORLD_SIZE": "8"}, Share(8, 8)),
        ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, Share(2, 2)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, Share(2, 2)),
    ],
)
def test_auto_takes_the_share_from_the_environment(environ: dict[str, str], expected: Share) -> None:
    assert parse_share("auto", environ) == expected


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "none of them is set"),
        ({"RANK": "3"}, "none of them is set"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, "none of them is set"),  # a batch script: one process
        (array(17, count=2, first=3, last=17), "the ids of this SLURM array are no range: 2 tasks from 3 to 17"),
        (array(5, count=4), "no range"),
        ({"RANK": "8", "WORLD_SIZE": "8"}, "expected RANK below WORLD_SIZE, found 8 and 8"),
        ({"RANK": "-1", "WORLD_SIZE": "8"}, "expected a number in RANK, found '-1'"),
        (array(3, count=4) | step(4, 4), "expected SLURM_PROCID below SLURM_STEP_NUM_TASKS, found 4 and 4"),
        ({"SLURM_ARRAY_TASK_ID": "3"}, "expected a number in SLURM_ARRAY_TASK_COUNT, found ''"),
    ],
)
def test_an_environment_without_a_share_is_an_error(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_share("auto", environ)


@pytest.mark.parametrize("text", ["0/4", "5/4", "3", "3/", "-1/4", "1/0", "a/b", "1/4/4", "³/4", "1/9999999", ""])
def test_a_text_that_is_no_share_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="expected SHARE/SHARES with"):
        parse_share(text, {})


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("energon map ds f.py:f --merge --write a", "energon map ds f.py:f --write a --share 2/3"),
        ("energon map --share 1/3 ds f.py:f --write a", "energon map ds f.py:f --write a --share 2/3"),
        ("energon prepare --part=1/3 'my data'", "energon prepare 'my data' --share 2/3"),
        ("energon import --merge -- --merge out", "energon import --share 2/3 -- --merge out"),
        ("", "energon map … --share 2/3"),
    ],
)
def test_a_command_is_shown_whole_with_another_share(typed: str, shown: str) -> None:
    words = tuple(re.findall(r"'[^']*'|\S+", typed))
    token = COMMAND_LINE.set((lambda: words) if words else None)
    try:
        assert command_with("--share 2/3", command="map …") == shown
    finally:
        COMMAND_LINE.reset(token)
