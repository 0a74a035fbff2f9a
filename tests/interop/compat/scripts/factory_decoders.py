"""Dataset factories that set their decoder in `__init__`, as Megatron-Bridge's chat datasets do."""

from __future__ import annotations

from facts import Facts
from megatron.energon import CaptioningSample, SampleDecoder, WorkerConfig, get_loader
from megatron.energon.epathlib import EPath
from megatron.energon.flavors.webdataset import DefaultDecoderWebdatasetFactory

facts = Facts()


def shout(sample):
    assert isinstance(sample["__key__"], str)
    return {**sample, "txt": sample["txt"].decode().upper()}


class Base(DefaultDecoderWebdatasetFactory[CaptioningSample]):
    __sample_type__ = CaptioningSample

    def __init__(self, path, **kwargs):
        super().__init__(path, field_map={"image": "jpg", "caption": "txt"}, **kwargs)


class After(Base):
    def __init__(self, path, **kwargs):
        super().__init__(path, **kwargs)
        self._decoder = SampleDecoder(image_decode="pilrgb")


class Before(Base):
    def __init__(self, path, **kwargs):
        self._decoder = shout
        super().__init__(path, **kwargs)


class Function(Base):
    def __init__(self, path, **kwargs):
        super().__init__(path, **kwargs)
        self._decoder = shout


class Nothing(Base):
    def __init__(self, path, **kwargs):
        super().__init__(path, **kwargs)
        self._decoder = None


def samples(factory, workers=0, **options):
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
    made = factory(
        EPath(facts.folder / "captions"),
        split_part="train",
        training=False,
        worker_config=config,
        parallel_shard_iters=1,
        max_samples_per_sequence=None,
        **options,
    )
    found = [(type(one.image).__name__, str(one.caption)) for one in get_loader(made.build())]
    return sorted(set(found))[:5]


for factory in (Base, After, Before, Function, Nothing):
    for name, options in (("", {}), ("_without_decoder", {"decoder": None}), ("_in_workers", {"workers": 2})):

        def fact(factory=factory, options=options):
            return samples(factory, **options)

        fact.__name__ = factory.__name__ + name
        facts.add(fact)

if __name__ == "__main__":
    facts.report()
