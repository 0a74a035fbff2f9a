"""Keyword arguments that reach the dataset's description, and files that metadatasets name."""

from __future__ import annotations

import sys
import types

from facts import Facts
from megatron.energon import (
    CaptioningSample,
    Cooker,
    DefaultDecoderWebdatasetFactory,
    DefaultTaskEncoder,
    ImageSample,
    Sample,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    get_loader,
    get_val_dataset,
    stateless,
)
from megatron.energon.flavors.webdataset.structs import DatasetSubset

facts = Facts()


class Texts(DefaultDecoderWebdatasetFactory[TextSample]):
    __sample_type__ = TextSample

    def __init__(self, path, *, prefix="", **kwargs):
        super().__init__(path, field_map={"text": "txt"}, **kwargs)
        self.prefix = prefix

    def load_sample(self, sample):
        loaded = super().load_sample(sample)
        loaded.text = self.prefix + loaded.text
        return loaded


module = types.ModuleType("texts_of_the_user")
module.Texts = Texts
sys.modules["texts_of_the_user"] = module


def load(path, **options):
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    options.setdefault("task_encoder", DefaultTaskEncoder())
    return list(get_loader(get_val_dataset(facts.folder / path, batch_size=None, worker_config=config, **options)))


def refused(path, **options):
    try:
        load(path, **options)
    except Exception:  # noqa: BLE001 - the classes of errors differ
        return True
    return False


@facts.add
def sample_types():
    return [
        [type(load("captions", sample_type=wanted)[0]).__name__ for wanted in (CaptioningSample, Sample)],
        [refused("captions", sample_type=wanted) for wanted in (TextSample, ImageSample)],
        [refused("mix.yaml", sample_type=wanted) for wanted in (TextSample, CaptioningSample)],
    ]


@facts.add
def field_map_of_the_file_wins():
    return [sample.caption for sample in load("captions", field_map={"image": "jpg", "caption": "json[part]"})]


@facts.add
def subsets():
    return [
        [sample.text for sample in load("texts", subset=DatasetSubset(range=(0.5, 0.52)))],
        [sample.text for sample in load("texts", subset=DatasetSubset(absolute_range=(7, 10)))],
    ]


@facts.add
def part_filter_of_crude_samples():
    class Encoder(DefaultTaskEncoder):
        cookers = [
            Cooker(
                stateless(
                    lambda sample: TextSample(
                        **basic_sample_keys(sample),
                        text=str([name for name in ("jpg", "json", "txt") if name in sample]),
                    )
                )
            )
        ]

    return [
        load("crude", task_encoder=Encoder(), **options)[0].text
        for options in ({}, {"part_filter": ["txt"]}, {"part_filter": lambda name: name == "json"})
    ]


@facts.add
def arguments_of_own_classes():
    meta = facts.folder / "texts/.nv-meta"
    (meta / "own.yaml").write_text("{__module__: texts_of_the_user, __class__: Texts}\n")
    return [sample.text for sample in load("texts", dataset_config="own.yaml", prefix="> ")][:5]


@facts.add
def files_named_by_documents():
    meta = facts.folder / "captions/.nv-meta"
    (meta / "few.yaml").write_text("split_parts: {val: [val/shard_003.tar]}\nexclude: []\n")
    (meta / "texts.yaml").write_text(
        "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: 'json[part]'}\n"
    )
    (facts.folder / "named.yaml").write_text(
        "{__module__: megatron.energon, __class__: MetadatasetV2, splits: {val: {path: ./captions, "
        "split_config: few.yaml, dataset_config: texts.yaml}}}\n"
    )
    return [[type(sample).__name__, sample.text] for sample in load("named.yaml")]


@facts.add
def unknown_arguments():
    return refused("captions", no_such_argument=1)


facts.report()
