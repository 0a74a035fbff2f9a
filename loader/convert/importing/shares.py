"""Shares of one import: what all of them agree on, and the planned shards of each."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Sequence

import msgspec
import numpy as np

from ...arrays import IntArray
from ...engine.journal import Job, Journal
from ...engine.run import Engine, merged_job
from ...engine.share import BYTES_PER_SHARD, divide
from ...format.unfinished import IMPORT_FOLDER
from ...storage import Storage
from ..rows.row_file import StoredRows
from ..rows.shard_layout import PlannedShard
from .plan import ImportPlan
from .report import DoneShard

_FOLDER = f"{IMPORT_FOLDER}/shares"


def share_lock(share_index: int) -> str:
    """Return the name of the lock that a share holds, so that it does not run twice at a time."""
    return f"{_FOLDER}/{share_index}.lock"


def agree_on_shares(
    storage: Storage,
    described: Job,
    engine: Engine,
    *,
    rows: StoredRows,
    order: IntArray,
    shards: Sequence[PlannedShard],
) -> Job:
    """Return the job of all shares, as the first one of them has described it.

    Args:
        described: The job of the import.
        rows: The samples that this share has listed.
        order: The order in which they are written.
        shards: The shards that are planned of them.

    Raises:
        ConfigError: This share lists other samples than the first one, or has other options; or a merge finds no share.
    """
    sizes = np.concatenate(([0], np.cumsum(np.maximum(rows.sizes[order], 0)))).tolist()
    planned = [BYTES_PER_SHARD + sizes[shard.stop] - sizes[shard.start] for shard in shards]
    starts = divide(planned, engine.share.count) if engine.share else ()
    job = msgspec.structs.replace(described, tasks=len(shards), starts=starts)
    # The first share describes the job. Shards whose rows and options are the same are kept in any case.
    journal: Journal[DoneShard] = Journal(storage, _FOLDER, DoneShard)
    if engine.merge:
        return merged_job(journal, job)
    return journal.begin(job, restart=engine.restart or engine.keeps_results)


def _digest_of_rows(rows: StoredRows) -> str:
    scratch = os.fsencode(os.path.dirname(rows.path))  # has another name in each run
    with open(rows.path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        # Few sources have rows with files of that folder.
        if data.find(scratch) < 0:
            digest = hashlib.sha256(rows.ends.tobytes())
            digest.update(data)
            return digest.hexdigest()
    digest = hashlib.sha256()
    for row in range(len(rows)):
        encoded = rows.read(row).replace(scratch, b"")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()


def job_of_import(plan: ImportPlan, rows: StoredRows) -> Job:
    """Describe what an import writes: its rows, with the sizes and times of their files, and its options."""
    layout = plan.layout
    order = b"" if layout.order is None else np.ascontiguousarray(layout.order, np.int64).tobytes()
    request = {
        **plan.inputs,
        "number of samples": f"{len(rows):,}",
        "list of source files": _digest_of_rows(rows),
        "shard size": f"{layout.shard_bytes:,}",
        "samples per shard": f"{layout.samples_per_shard:,}",
        "split ratio": "" if layout.split_ratio is None else str([*layout.split_ratio.items()]),
        "seed": "" if layout.shuffle_seed is None else str(layout.shuffle_seed),
        "order": hashlib.sha256(order).hexdigest(),
        "handling of pictures": str(plan.pictures),
        "documents": hashlib.sha256(msgspec.json.encode(sorted(plan.files.items()))).hexdigest(),
    }
    return Job(command=plan.command, request=request, tasks=0)
