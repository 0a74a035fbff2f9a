"""Exclusions written in several ways, and joins of datasets with missing and excluded samples."""

from __future__ import annotations

import sys
import types

from facts import Facts
from megatron.energon import Sample, WorkerConfig, edataclass, get_loader, get_val_dataset, prepare_metadataset
from megatron.energon.epathlib import EPath

DIFFERS = {
    "exclude_without_a_value": "An empty `exclude:` excludes nothing here; there it is an error.",
    "bare_key_in_exclude": "`exclude` accepts a bare key here; there it is ignored.",
    "left_join": "A left join (`nonmatch: none`) gives None for a missing sample here; there it is an error.",
}

facts = Facts()
PARTS = "split_parts:\n  val:\n  - val/shard_{000..004}.tar\n"


@edataclass
class Pair(Sample):
    caption: str
    other: object

    @classmethod
    def from_joined(cls, first, second):
        return cls.derive_from(first, caption=first.caption, other=None if second is None else second.caption)


module = types.ModuleType("pairs_of_the_user")
module.Pair = Pair
sys.modules["pairs_of_the_user"] = module


def load(path):
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    return list(get_loader(get_val_dataset(facts.folder / path, batch_size=None, worker_config=config)))


def captions_with(exclude):
    (facts.folder / "captions/.nv-meta/split.yaml").write_text(PARTS + exclude)
    return [sample.caption for sample in load("captions")]


@facts.add
def exclude():
    return [
        captions_with("exclude: []\n"),
        captions_with("exclude: [val/shard_000.tar]\n"),
        captions_with("exclude: ['val/shard_001.tar/val_0002{1..3}', val/shard_004.tar]\n"),
    ]


@facts.add
def exclude_given_again():
    return [
        captions_with("exclude: []\nexclude: [val/shard_000.tar]\n"),
        captions_with("exclude: [val/shard_000.tar]\nexclude: []\n"),
        captions_with("exclude:\n- val/shard_000.tar\nexclude:\n- val/shard_001.tar\n"),
    ]


@facts.add
def exclude_without_a_value():
    return captions_with("exclude:\n")


@facts.add
def bare_key_in_exclude():
    return captions_with("exclude: [val_00003]\n")


def join(nonmatch, exclude="exclude: []\n"):
    captions_with(exclude)
    path = facts.folder / f"join_{nonmatch}.yaml"
    path.write_text(f"""\
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  val:
    join:
      - {{path: ./captions}}
      - {{path: ./captions2, nonmatch: {nonmatch}}}
    joiner: {{__module__: pairs_of_the_user, __class__: Pair}}
""")
    prepare_metadataset(EPath(path))
    return [[sample.caption, sample.other] for sample in load(path.name)]


@facts.add
def inner_join():
    return join("skip")


@facts.add
def join_with_an_excluded_sample():
    return sorted(join("skip", "exclude: [val/shard_000.tar/val_00003]\n"))


@facts.add
def join_with_an_excluded_shard():
    return sorted(join("skip", "exclude: [val/shard_000.tar]\n"))


@facts.add
def left_join():
    return join("none")


facts.report()
