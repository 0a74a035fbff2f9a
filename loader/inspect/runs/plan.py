"""Costs of a planned run before it starts: of a dataset with arguments, or of the first loader of a script."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from ...errors import ConfigError, StorageError
from ...order import default_lanes
from ...pipeline.contract.rank_stage import cut_rank_stages
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.stages.batch import planning_reader
from ...storage import RequestNeeds
from .explain import RunFacts, explain_run
from .planned_run import PlannedRun, RunRequest
from .reads import hub_requests
from .step_costs import StepCostFacts, step_costs


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSteps:
    """The steps of a planned run.

    Attributes:
        steps: The costs of the steps, for each number of ranks.
        run: Shares, repeats and reads of the run on the first number of ranks; None for a script.
        node_bytes: Bytes that a node reads in the run, by the average size of samples; None for a script.
        hub_requests: Requests to the Hugging Face Hub, on the first number of ranks; None without ``hf://`` datasets.
    """

    steps: tuple[StepCostFacts, ...]
    run: RunFacts | None = None
    node_bytes: int | None = None
    hub_requests: RequestNeeds | None = None


def plan_steps(request: RunRequest, *, ranks: Sequence[int], steps: int | None, ranks_of_node: int = 8) -> PlannedSteps:
    """Compute the steps of a run.

    Args:
        request: The run, with arguments that plan its groups.
        ranks: Numbers of ranks to compare; the first one counts for shares and reads.
        steps: Steps of the run; None for one epoch.
        ranks_of_node: Ranks that share a machine.
    """
    runs = (PlannedRun(replace(request, world_size=count)) for count in ranks)
    facts = tuple(
        step_costs(run.chain, ranks=run.request.world_size, lanes=run.lanes, seed=run.seed, steps=steps) for run in runs
    )
    # Explain the same samples without a plan: micro-batches of the mean number of samples.
    size = max(1, round(facts[0].micro_batch_samples))
    run = PlannedRun(replace(request, world_size=ranks[0], batch_size=size, planning={}))
    explained = explain_run(run, steps or run.epoch_steps)
    read = sum(source.bytes_read for source in explained.sources)
    node_bytes = read * min(ranks_of_node, ranks[0]) // ranks[0]
    needs = hub_requests(run.sources, ranks=ranks[0], ranks_of_node=ranks_of_node)
    return PlannedSteps(steps=facts, run=explained, node_bytes=node_bytes, hub_requests=needs)


def parse_ranks(text: str) -> tuple[int, ...]:
    """Return the numbers of ranks in a text.

    >>> parse_ranks("64,128")
    (64, 128)
    """
    numbers = text.split(",")
    if not all(part.isascii() and part.isdigit() and int(part) for part in numbers):
        raise ConfigError(f"expected numbers of ranks above 0, found {text!r}")
    return tuple(map(int, numbers))


def parse_capacity(text: str) -> tuple[str, float]:
    """Return a cost and its capacity.

    >>> parse_capacity("tokens=8192")
    ('tokens', 8192.0)
    """
    cost, _, limit = text.rpartition("=")
    try:
        if cost:
            return cost, float(limit)
    except ValueError:
        pass
    raise ConfigError(f"expected COST=N, found {text!r}")


# ------------------------------------------------------------------------------------------------------------ scripts

_START = """
import importlib, os, sys
sys.path.insert(0, os.path.dirname(os.path.realpath(sys.argv[1])))
from energon_cli.library import name_here
importlib.import_module(name_here("loader.inspect.runs.plan")).run_script()
"""
"""The folder of the script may have another ``loader``, so it is in the path before the library is imported."""
_REQUEST = "ENERGON_PLAN_OF_SCRIPT"  # what is asked of the process of a script: where the result goes, and the run


class _FirstLoader(BaseException):
    """Ends a script where it makes its first loader."""

    def __init__(self, dataset: SavableDataset[Any]) -> None:
        super().__init__()
        self.dataset = dataset


def plan_script(
    script: str, arguments: Sequence[str], *, ranks: Sequence[int], steps: int | None, ranks_of_node: int = 8
) -> PlannedSteps:
    """Compute the steps of the run that a training script begins.

    The script runs in a process of its own, up to its first loader. What it prints goes to standard error.

    Args:
        script: Path of the Python script. It is the caller's program: it is run as it is.
        arguments: Its arguments.
        ranks: Numbers of ranks to compare; empty for the number of the script's worker config.
        steps: Steps of the run; None for one epoch.
        ranks_of_node: Ranks that share a machine.

    Raises:
        StorageError: There is no such script.
        ConfigError: The script failed, made no loader, or one that plans no groups.
    """
    if not Path(script).is_file():
        raise StorageError("there is no such script", at=script)
    with tempfile.TemporaryDirectory(prefix="energon-plan-") as folder:
        result = Path(folder, "facts.json")
        request = msgspec.json.encode({"result": str(result), "run": [ranks, steps, ranks_of_node]}).decode()
        command = [sys.executable, "-c", _START, script, *arguments]
        ended = subprocess.run(command, env=os.environ | {_REQUEST: request}, stdout=sys.stderr, check=False)
        if not result.exists():
            reason = f"ended with exit code {ended.returncode}" if ended.returncode else "made no loader"
            raise ConfigError(f"the script {reason}", at=script, hint="run it alone, and call get_loader in it")
        answer = msgspec.json.decode(result.read_bytes())
    if "error" in answer:
        raise ConfigError(answer["error"], at=script, hint=answer["hint"])
    return msgspec.convert(answer, PlannedSteps)


def run_script() -> None:
    """Run the script that the arguments of this process name, and write the plan of its first loader."""
    from ...training.loaders.data_loader import DataLoader  # it needs torch, which plans of datasets do not

    request = msgspec.json.decode(os.environ.pop(_REQUEST))
    del sys.argv[0]

    def stop(_loader: Any, dataset: SavableDataset[Any], *_: Any, **__: Any) -> None:
        raise _FirstLoader(dataset)

    DataLoader.__init__ = stop  # type: ignore[method-assign, assignment]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except _FirstLoader as first:
        dataset = first.dataset
    else:
        return
    try:
        answer: Any = _planned(dataset, *request["run"])
    except ConfigError as error:
        answer = {"error": error.message, "hint": error.hint}
    Path(request["result"]).write_bytes(msgspec.json.encode(answer))


def _planned(dataset: SavableDataset[Any], ranks: Sequence[int], steps: int | None, ranks_of_node: int) -> PlannedSteps:
    chain, config = cut_rank_stages(dataset)[0], dataset.worker_config
    facts = []
    for count in ranks or [config.world_size]:
        lanes = WorkerConfig(rank=0, world_size=count, num_workers=config.num_workers, lanes=config.lanes).lanes
        lanes = lanes or default_lanes(count, config.num_workers, has_buffers=chain.waits)
        facts.append(step_costs(chain, ranks=count, lanes=lanes, seed=config.seed_offset, steps=steps))
    needs = hub_requests(planning_reader(chain)[0].sources, ranks=facts[0].ranks, ranks_of_node=ranks_of_node)
    return PlannedSteps(steps=tuple(facts), hub_requests=needs)
