"""Shares of one import: what all of them agree on, and the planned shards of each."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

import msgspec
import numpy as np

from ...arrays import IntArray
from ...engine.journal import Job, Journal
from ...engine.run import Engine
from ...engine.share import BYTES_PER_SHARD, divide
from ...errors import ConfigError
from ...format.unfinished import IMPORT_FOLDER
from ...storage import Storage
from ..rows.row_file import PlannedShard, RowFile
from .plan import DoneShard, ImportPlan

_FOLDER = f"{IMPORT_FOLDER}/shares"
_FILE = f"{_FOLDER}/job.json"
_LISTING = ("samples", "listing")


def share_lock(share_index: int) -> str:
    """Return the name of the lock that a share holds, so that it does not run twice at a time."""
    return f"{_FOLDER}/{share_index}.lock"


def agree_on_shares(
    storage: Storage,
    plan: ImportPlan,
    engine: Engine,
    *,
    rows: RowFile,
    order: IntArray,
    shards: Sequence[PlannedShard],
) -> Job:
    """Return the job of all shares, as the first one of them has described it.

    Args:
        rows: The samples that this share has listed.
        order: The order in which they are written.
        shards: The shards that are planned of them.

    Raises:
        ConfigError: This share lists other samples than the first one, or has other options; or a merge finds no share.
    """
    sizes = np.concatenate(([0], np.cumsum(np.maximum(rows.sizes[order], 0)))).tolist()
    planned = [BYTES_PER_SHARD + sizes[shard.stop] - sizes[shard.start] for shard in shards]
    job = Job(
        command=plan.command,
        request={"samples": f"{len(rows):,}", "listing": _digest_of_rows(rows), "options": _digest_of_options(plan)},
        tasks=len(shards),
        starts=divide(planned, engine.share.count) if engine.share else (),
    )
    # The first share describes the job.
    journal: Journal[DoneShard] = Journal(storage, _FOLDER, DoneShard)
    data = msgspec.json.encode(job)
    if not engine.merge:
        storage.create_once(_FILE, data)
    there = journal.job()
    if there is None:
        raise ConfigError(
            "there are no shares to merge: none was started",
            at=storage.path(""),
            hint=f"run the shares first: energon {plan.command} … --share 1/8, and so on, which must see this folder",
        )
    different = [name for name in there.differences(job) if not (engine.merge and name == "shares")]
    if not different:
        return there
    # Shards whose rows and options are the same are kept in any case.
    if not engine.merge and (engine.restart or engine.keeps_results):
        storage.write(_FILE, data)
        return job
    raise _difference(different, job, there, at=storage.path(""))


def _difference(different: Sequence[str], job: Job, there: Job, *, at: str) -> ConfigError:
    hint = "run the shares again with --restart: shards whose samples and options are the same are kept"
    if {*_LISTING} & {*different}:
        here, first = job.request["samples"], there.request["samples"]
        what = f"{here} instead of {first}" if here != first else f"{here}, some of which have changed"
        return ConfigError(
            f"the sources have other samples than when the first share listed them: {what}",
            at=at,
            hint=f"check that all machines see the same files and that no program writes there; then {hint}",
        )
    if different == ["shares"]:
        return ConfigError(f"expected one of {len(there.starts)} shares, as the first one, found {len(job.starts)}",
                           at=at, hint=f"name them alike; or {hint}")  # fmt: skip
    return ConfigError("the first share has other options", at=at, hint=f"use its options; or {hint}")


def _digest_of_rows(rows: RowFile) -> str:
    scratch = os.fsencode(os.path.dirname(rows.path))  # has another name in each run
    digest = hashlib.sha256()
    for row in range(len(rows)):
        data = rows.read(row).replace(scratch, b"")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _digest_of_options(plan: ImportPlan) -> str:
    layout = plan.layout
    order = b"" if layout.order is None else np.ascontiguousarray(layout.order, np.int64).tobytes()
    ratio = None if layout.split_ratio is None else [*layout.split_ratio.items()]
    settings = [layout.shard_bytes, layout.samples_per_shard, ratio, layout.shuffle_seed, sorted(plan.files.items())]
    return hashlib.sha256(msgspec.json.encode([plan.pictures, settings]) + order).hexdigest()
