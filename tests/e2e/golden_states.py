"""Record the states of runs, and the micro-batches that follow them.

``tests/golden/states/<version>.tar.xz`` contains datasets as that version prepared them, ``<version>.json`` the states
of runs over them; ``<version>-tables`` those of token, JSONL and Parquet files, ``<version>-schedules`` those of
weights that change during the run, ``<version>-volumes`` those of weights that are shares of volumes,
``<version>-excluded`` those of runs over datasets with excluded samples, and ``<version>-excluded-later`` those of runs
whose datasets have excluded samples since. Record the current version with ``python -m tests.e2e.golden_states``, or a
part of it by its name. Never change an old record, except with a new ``version`` of states: then all states are
recorded again, over the same datasets.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import yaml

from loader import (
    Sample,
    SavableDataset,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    edataclass,
    prepare_metadataset,
    sample_size_metric,
)
from loader.version import __version__
from tests.e2e.drawing_encoders import (
    Cooking,
    Failing,
    Grouping,
    PackingTwice,
    PackingYields,
    Yielding,
    YieldingBatches,
)
from tests.e2e.drawing_pipelines import (
    Data,
    blend_of_batches,
    blend_of_samples,
    buffered,
    filtered,
    in_pairs,
    joined,
    limited,
    mixed,
    repeated,
    train,
    val,
)
from tests.e2e.mixed_data import write_metadataset, write_mixed_data
from tests.e2e.text_dataset import exclude
from tests.elastic_runs import Delivered, Pipeline, Spread, running
from tests.tables import prepare_parts, write_lines, write_rows
from tests.token_files import numbered, write_tokens


@edataclass
class Pair(Sample):
    """Sample of the recorded join."""

    text: str

    @classmethod
    def from_joined(cls, sample: dict[str, Any], other: dict[str, Any] | None) -> Self:
        picture = None if other is None else other["raw"]
        return cls(__key__=sample["__key__"], __restore_key__=(), text=f"{sample['txt']!r} {picture!r}")


RECORDS = Path(__file__).parent.parent / "golden/states"
_JOINER = "tests_golden_joiner"  # the module that the recorded join names


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run whose states are recorded after ``steps`` steps of ``ranks`` ranks."""

    build: Callable[[Data, WorkerConfig], SavableDataset[Any]]
    batches: int | None = 36
    known_ahead: bool = True
    lanes: int = 12
    ranks: int = 2
    steps: int = 4

    def pipeline(self, folder: Path) -> Pipeline:
        data = Data(texts=folder / "texts", more=folder / "more", crude=folder / "crude")
        return Pipeline(
            build=partial(self.build, data), batches=self.batches, known_ahead=self.known_ahead, lanes=self.lanes
        )


def mix(data: Data, config: WorkerConfig, *, name: str, **options: Any) -> SavableDataset[Any]:
    """Build a run over a metadataset in the folder of the datasets."""
    mixed = Data(texts=data.texts.parent / name, more=data.more, crude=data.crude)
    return train(mixed, config, **options)


CASES = {
    "plain": Case(build=train, ranks=4),
    "crude": Case(build=partial(train, encoder=TaskEncoder, path="crude")),
    "failing samples and batches": Case(build=partial(train, encoder=Failing)),
    "cooked": Case(build=partial(train, encoder=Cooking, path="crude"), ranks=3),
    "several samples of each": Case(build=partial(train, encoder=Yielding), ranks=3),
    "several batches of each": Case(build=partial(train, encoder=YieldingBatches), lanes=6),
    "drawn with replacement": Case(build=partial(train, shuffle_over_epochs_multiplier=-1)),
    "blend": Case(build=blend_of_samples),
    "blend of batches": Case(build=blend_of_batches),
    "filter": Case(build=filtered),
    "packing": Case(build=partial(train, encoder=PackingTwice, packing_buffer_size=9), ranks=3),
    "packing, several of each": Case(
        build=partial(train, encoder=PackingYields, packing_buffer_size=8), batches=24, lanes=4, steps=5
    ),
    "mix-batch": Case(build=mixed, ranks=3),
    "shuffle buffer": Case(build=buffered, lanes=4, steps=6),
    "iter-map": Case(build=in_pairs, lanes=6),
    "repeat": Case(build=partial(repeated, repeats=None), steps=8),
    "limit": Case(build=partial(limited, length=5)),
    "virtual epochs": Case(build=partial(train, virtual_epoch_length=3)),
    "one pass": Case(build=partial(train, repeat=False, path="more"), batches=None),
    "one pass, packing": Case(
        build=partial(train, repeat=False, encoder=PackingTwice, packing_buffer_size=9),
        batches=None,
        known_ahead=False,
        lanes=6,
    ),
    "validation": Case(build=val, batches=None, lanes=8),
    "validation, grouping": Case(build=partial(val, encoder=Grouping), batches=None, known_ahead=False, lanes=6),
    "concat": Case(build=joined, batches=None, ranks=3),
    "metadataset, blend": Case(build=partial(mix, name="blend.yaml")),
    "metadataset, one pass": Case(build=partial(mix, name="epochized.yaml", repeat=False), batches=None),
    "metadataset, join": Case(build=partial(mix, name="join.yaml")),
}


class Described(TaskEncoder[Any, Any, Any, Any]):
    """Turns a crude sample of any file into text, so that samples of several formats can be batched."""

    def encode_sample(self, sample: Any) -> TextSample:
        values = {name: value for name, value in sample.items() if not name.startswith("__")}
        if "tokens" in values:
            values["tokens"] = (values["tokens"].dtype.name, values["tokens"].tolist())
        return TextSample(**basic_sample_keys(sample), text=repr(values))


TABLES = {
    "token file": Case(build=partial(mix, name="tokens.bin", encoder=Described), ranks=3),
    "Parquet file": Case(build=partial(mix, name="rows.parquet", encoder=Described)),
    "folder of JSONL files": Case(build=partial(mix, name="lines", encoder=Described), ranks=3),
    "folder of Parquet files": Case(build=partial(mix, name="rows", encoder=Described)),
    "blend of files": Case(build=partial(mix, name="files.yaml", encoder=Described), ranks=4),
}
"""Cases over token, JSONL and Parquet files, recorded in ``<version>-tables.json``."""


class Sized(PackingTwice):
    """Measures samples from 5000 on as 30 tokens, and others as 10."""

    @sample_size_metric
    def tokens(self, sample: TextSample) -> int:
        return 30 if int(re.findall(r"\d+", sample.text)[0]) >= 5000 else 10


def write_tables(folder: Path) -> None:
    """Write the files that the cases of :data:`TABLES` load."""
    write_tokens(folder / "tokens", numbered(211))
    write_rows(folder / "rows.parquet", range(1000, 1090))
    for shard, numbers in enumerate((range(2000, 2031), range(2031, 2100), range(2100, 2110))):
        write_lines(folder / f"lines/{shard}.jsonl", numbers)
        write_rows(folder / f"rows/{shard}.parquet", numbers)
    for name in ("lines", "rows"):
        prepare_parts(folder / name, {"train": 2, "val": 1})
    blend = [
        {"weight": 3, "path": "tokens", "subset": {"range": ["10%", "90%"]}},
        {"weight": 1, "path": "rows.parquet"},
        {"weight": 0.001, "path": "lines", "split_part": "val"},
        {"weight": 1, "path": "rows"},
    ]
    document = {
        "__module__": "megatron.energon",
        "__class__": "MetadatasetV2",
        "splits": {"train": {"blend": blend}},
    }
    (folder / "files.yaml").write_text(yaml.safe_dump(document))


SCHEDULES = {
    "weights by step": Case(build=partial(mix, name="steps.yaml"), ranks=1, steps=14),
    "weights by sample, nested": Case(build=partial(mix, name="samples.yaml"), ranks=4, steps=3),
}
"""Cases whose weights change during the run, recorded in ``<version>-schedules.json``."""


def write_schedules(folder: Path) -> None:
    """Prepare the datasets and metadatasets that the cases of :data:`SCHEDULES` load."""
    data = write_mixed_data(folder)
    steps = [{"weight": {0: 3, 10: 1, 20: 0}, "path": "texts"}, {"weight": {0: 0, 10: 1}, "path": "more"}]
    data.write("steps.yaml", {"train": {"blend": [*steps, {"path": "more", "split_part": "val"}]}})
    linear = {"unit": "samples", "change": "linear", "at": {0: 0, 90: 3}}
    inner = {"blend": [{"weight": {"unit": "samples", "at": {0: 1, 50: 4}}, "path": "texts"}, {"path": "more"}]}
    data.write("inner.yaml", {"train": inner})
    outer = [{"weight": 2, "path": "inner.yaml"}, {"weight": linear, "path": "more", "split_part": "val"}]
    data.write("samples.yaml", {"train": {"blend": outer}})


_STEPS = partial(mix, name="volume_steps.yaml", encoder=Sized)
_SAMPLES = partial(mix, name="volume_samples.yaml", encoder=Sized)

VOLUMES = {
    "volumes": Case(build=partial(mix, name="volumes.yaml", encoder=Sized)),
    "volumes that change by step": Case(build=partial(_STEPS, packing_buffer_size=9), ranks=1, steps=14),
    "volumes that change by sample, nested": Case(build=_SAMPLES, ranks=4, steps=3),
}
"""Cases whose weights are shares of volumes, recorded in ``<version>-volumes.json``."""


def write_volumes(folder: Path) -> None:
    """Prepare the datasets and metadatasets that the cases of :data:`VOLUMES` load."""
    data = write_mixed_data(folder)

    def write(name: str, *weights: Any, path: str = "texts") -> None:
        entries = [{"path": path, "weight": weights[0]}, {"path": "more", "split_part": "val", "weight": weights[1]}]
        data.write(name, {"train": {"blend": entries, "blend_weight_unit": "tokens"}})

    write("volumes.yaml", 2, 1)
    write("volume_steps.yaml", {0: 3, 10: 1, 20: 0}, {0: 0, 10: 1})
    linear = {"unit": "samples", "change": "linear", "at": {0: 0, 90: 3}}
    inner = [{"path": "texts"}, {"path": "more", "weight": {"unit": "samples", "at": {0: 1, 50: 4}}}]
    data.write("inner.yaml", {"train": {"blend": inner}})
    write("volume_samples.yaml", linear, 2, path="inner.yaml")


_EXCLUSIONS: dict[str, Case] = {
    "plain": Case(build=train, ranks=4),
    "dealt": Case(build=partial(train, path="more"), lanes=24),
    "drawn with replacement": Case(build=partial(train, shuffle_over_epochs_multiplier=-1)),
    "one pass": Case(build=partial(train, repeat=False, path="more"), batches=None, known_ahead=False),
    "validation": Case(build=val, batches=None, known_ahead=False, lanes=8),
    "packing": Case(build=partial(train, encoder=PackingTwice, packing_buffer_size=9), ranks=3),
    "blend": Case(build=blend_of_samples),
    "metadataset, blend": Case(build=partial(mix, name="blend.yaml")),
    "metadataset, one pass": Case(
        build=partial(mix, name="epochized.yaml", repeat=False), batches=None, known_ahead=False
    ),
    "metadataset, weights by step": Case(build=partial(mix, name="steps.yaml"), ranks=1, steps=14),
    "metadataset, join": Case(build=partial(mix, name="join.yaml")),
    "folder of JSONL files": Case(build=partial(mix, name="lines", encoder=Described), ranks=3),
}
EXCLUDED = {f"excluded, {name}": case for name, case in _EXCLUSIONS.items()}
"""Cases over datasets with excluded samples, recorded in ``<version>-excluded.json``."""

EXCLUDED_LATER = {f"excluded later, {name}": case for name, case in _EXCLUSIONS.items() if "join" not in name}
"""Cases whose states are older than the exclusions, recorded in ``<version>-excluded-later.json``.

The rows of a join are prepared again after an exclusion, so they have no states from before.
"""


def write_all(folder: Path) -> None:
    """Prepare the datasets and metadatasets that the cases of :data:`EXCLUDED` load; nothing is excluded."""
    write_data(folder)
    steps = [{"weight": {0: 3, 10: 1, 20: 0}, "path": "texts"}, {"weight": {0: 0, 10: 1}, "path": "more"}]
    write_metadataset(folder / "steps.yaml", {"train": {"blend": steps}})
    for shard, numbers in enumerate((range(2000, 2031), range(2031, 2100), range(2100, 2110))):
        write_lines(folder / f"lines/{shard}.jsonl", numbers)
    prepare_parts(folder / "lines", {"train": 2, "val": 1})


def exclude_many(folder: Path) -> None:
    """Exclude single samples, neighbours and a shard of the datasets."""
    exclude(
        folder / "texts",
        "train_1.tar",
        *(f"train_0.tar/{number:05d}" for number in range(0, 41, 3)),
        *(f"train_3.tar/{number:05d}" for number in range(60, 90)),
        *(f"val_2.tar/{number:05d}" for number in range(178, 218, 2)),
    )
    exclude(folder / "more", *(f"train_1.tar/{number:05d}" for number in range(5009, 5040, 2)), "val_0.tar/05041")
    exclude(folder / "crude", *(f"train_1.tar/{number:05d}" for number in range(7011, 7030, 4)))
    exclude(folder / "lines", *(f"0.jsonl/{number}" for number in range(3, 31, 4)))


def write_excluded(folder: Path) -> None:
    """Prepare the datasets and metadatasets that the cases of :data:`EXCLUDED` load."""
    write_all(folder)
    exclude_many(folder)
    prepare_metadataset(folder / "join.yaml")


def write_data(folder: Path) -> None:
    """Prepare the datasets and metadatasets that the cases load."""
    data = write_mixed_data(folder)
    inner = {"blend": [{"weight": 1, "path": "texts"}, {"weight": 2, "path": "more", "subset": {"range": [0, 20]}}]}
    data.write("inner.yaml", {"train": inner})
    data.write(
        "blend.yaml",
        {"train": {"blend": [{"weight": 2, "path": "inner.yaml"}, {"path": "more", "split_part": "val"}]}},
    )
    halves = [{"repetitions": 0.3, "path": "texts"}, {"repetitions": 2, "path": "more"}]
    data.write("epochized.yaml", {"train": {"blend_epochized": halves}})
    members = [{"path": "crude"}, {"path": "pictures", "split_part": "train", "nonmatch": "none"}]
    joiner = {"__module__": _JOINER, "__class__": "Pair"}
    data.write("join.yaml", {"train": {"join": members, "joiner": joiner}})
    prepare_metadataset(folder / "join.yaml")


def add_joiner() -> None:
    """Register the joiner under the module name that the recorded join uses."""
    module = ModuleType(_JOINER)
    module.Pair = Pair  # type: ignore[attr-defined]
    sys.modules[_JOINER] = module


def digests(delivered: Delivered, folder: Path) -> dict[str, str]:
    """Return a digest of each micro-batch, independent of the path of the data."""
    here = str(folder).encode()
    return {
        str(number): hashlib.sha256(batch.replace(here, b"")).hexdigest()[:16]
        for number, batch in sorted(delivered.items())
    }


def save(name: str, folder: Path) -> dict[str, Any]:
    """Return the states of a case, and the numbers of the micro-batches that came before."""
    case = ALL_CASES[name]
    with running(case.pipeline(folder), Spread(case.ranks)) as run:
        for _ in range(case.steps):
            run.step()
        return {"states": run.states(), "delivered": sorted(run.delivered)}


def micro_batches(name: str, folder: Path, states: list[Any]) -> dict[str, str]:
    """Return the micro-batches of an uninterrupted run.

    If the batches of a pass are not known ahead, the lanes of a worker share its last ones, so that they differ with
    the number of ranks: then the micro-batches are those of one rank that continues from the states. So they are if
    the data has changed since.
    """
    case = ALL_CASES[name]
    continues = not case.known_ahead or name in EXCLUDED_LATER
    with running(case.pipeline(folder), Spread(), states if continues else None) as run:
        while run.is_unfinished() and run.step():
            pass
        return digests(run.delivered, folder)


ALL_CASES = {**CASES, **TABLES, **SCHEDULES, **VOLUMES, **EXCLUDED, **EXCLUDED_LATER}


def write_record(
    name: str,
    cases: Mapping[str, Case],
    write: Callable[[Path], None],
    change: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Record the states of some cases and the data that they load.

    Args:
        name: Name of the files, without suffix.
        cases: The cases.
        write: Writes the data.
        change: Changes the data after the states were saved.
    """
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "data"
        folder.mkdir()
        write(folder)
        runs = {case: save(case, folder) for case in cases}
        change(folder)
        for case, run in runs.items():
            run["batches"] = micro_batches(case, folder, run["states"])
        lines = ",\n".join(f"{json.dumps(case)}: {json.dumps(run)}" for case, run in runs.items())
        (RECORDS / f"{name}.json").write_text(f"{{\n{lines}\n}}\n".replace(str(folder), "DATA"))
        with tarfile.open(RECORDS / f"{name}.tar.xz", "w:xz", format=tarfile.PAX_FORMAT) as archive:
            archive.add(folder, arcname="data")


def main() -> None:
    RECORDS.mkdir(parents=True, exist_ok=True)
    add_joiner()
    records: dict[str, tuple[Any, ...]] = {
        __version__: (CASES, write_data),
        f"{__version__}-tables": (TABLES, write_tables),
        f"{__version__}-schedules": (SCHEDULES, write_schedules),
        f"{__version__}-volumes": (VOLUMES, write_volumes),
        f"{__version__}-excluded": (EXCLUDED, write_excluded),
        f"{__version__}-excluded-later": (EXCLUDED_LATER, write_all, exclude_many),
    }
    for name in sys.argv[1:] or records:
        write_record(name, *records[name])


if __name__ == "__main__":
    main()
