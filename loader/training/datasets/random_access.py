"""``random_access``: a map-style dataset, for training loops with their own sampler."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Literal, NoReturn

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...errors import ConfigError, EnergonError, SampleError, SkipSample, StateError, plural
from ...format.data_kind import data_kind
from ...format.documents.providers import ALL_PARTS
from ...pipeline.contract.hook import makes_several
from ...pipeline.contract.item_id import ItemId
from ...pipeline.contract.lane import Lane
from ...pipeline.contract.rng import preserve_rng_state, seed_sample
from ...pipeline.contract.stage import Running, State
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.failures.error_handlers import joined_names
from ...pipeline.reading.order_plan import SequentialPlan
from ...pipeline.reading.read import ReadDataset
from ...pipeline.reading.samples import T_co, excluded_positions, positions_without, replacements
from ...pipeline.reading.source import Raw, Source
from ...samples.encoding.task_encoder import DefaultTaskEncoder, TaskEncoder
from ...samples.hooks import in_hook_context, running_hook_context
from ..workers.running_lane import open_lane
from .chain import build_single_samples, sample_hooks
from .numbered_samples import NumberedSamples
from .open_sources import open_leaves

_OPENED = ("_lane", "_running", "_replacements")  # dropped when pickled

Excluded = Literal["leave_out", "replace"]


class GivenSamples(ReadDataset):
    """The first stage below hooks that build single samples by ``load``: it returns the raw sample that it was given.

    Attributes:
        raw: The sample, until it is returned.
    """

    raw: Raw

    def open(self, lane: Lane, state: State) -> Running:  # noqa: ARG002 - has no position
        return self

    def load(self, item_id: ItemId) -> Any:  # noqa: ARG002 - the caller has read it
        return vars(self).pop("raw")

    def next(self) -> NoReturn:
        raise StopIteration

    def state(self) -> State:
        return {}


class RandomAccessDataset(NumberedSamples[T_co]):
    """Samples by number, as :func:`random_access` returns them.

    ``dataset[i]`` is the i-th sample, ``dataset[-1]`` the last one, ``dataset[2:5]`` a list of three,
    ``dataset["shard_0.tar/0001"]`` or ``dataset["0001"]`` the sample of a key, and ``for sample in dataset`` yields
    all. Each sample is read when it is requested, in a time that does not depend on the size of the dataset.
    ``torch.utils.data.DataLoader`` requests a whole batch, whose samples are located together, and batches them as
    :func:`~loader.samples.batching.collate.generic_batch` does.

    The dataset can be sent to worker processes of any start method; each opens the files that it needs. Within a
    process, only one thread at a time may read; with hooks, a second one raises an error.

    Args:
        sources: The datasets, one after another.
        task_encoder: The hooks that cook and encode samples.
        excluded: As in :func:`random_access`.
        seed_offset: As in :func:`random_access`.

    >>> photos = random_access("photos")
    >>> len(photos), photos[-1].caption
    (4, 'a bird')
    """

    def __init__(
        self,
        sources: Sequence[Source],
        task_encoder: TaskEncoder[Any, Any, Any, Any],
        *,
        excluded: Excluded = "leave_out",
        seed_offset: int = 0,
    ) -> None:
        if excluded not in ("leave_out", "replace"):
            raise ConfigError(f"expected excluded to be 'leave_out' or 'replace', found {excluded!r}")
        for hook in sample_hooks(task_encoder):
            if makes_several(hook):
                raise _generator_error(hook.__name__)
        super().__init__(sources)
        config = WorkerConfig(rank=0, world_size=1, num_workers=0, seed_offset=seed_offset, lanes=1)
        self._given = GivenSamples(sources, SequentialPlan(), worker_config=config)
        self._chain = build_single_samples(self._given, task_encoder)
        self._replaces = excluded == "replace"
        self._excluded = excluded_positions(sources)
        self._threads: dict[str, int] = {}  # the thread at work; a lock could be copied by a fork while it is held

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name not in _OPENED} | {"_threads": {}}

    def __len__(self) -> int:
        return super().__len__() if self._replaces else super().__len__() - len(self._excluded)

    def __repr__(self) -> str:
        sources = joined_names([source.describe() for source in self.sources])
        return f"<{type(self).__name__} of {plural(len(self), 'sample')}: {sources}>"

    def _kept(self, positions: IntArray) -> IntArray:
        return np.setdiff1d(positions, self._excluded)

    _key_hint = "pass shard/key; split_part=None searches all split parts"

    def _positions(self, numbers: IntArray) -> IntArray:
        if not len(self._excluded):
            return numbers
        if not self._replaces:
            return positions_without(self._excluded, numbers)
        row = np.minimum(np.searchsorted(self._excluded, numbers), len(self._excluded) - 1)
        return np.where(self._excluded[row] == numbers, self._replacements[row], numbers)

    @cached_property
    def _replacements(self) -> IntArray:
        return replacements(self._excluded, len(self))

    @cached_property
    def _lane(self) -> Lane:
        return open_lane(self._chain, 0, 1)

    @cached_property
    def _running(self) -> Running:
        return self._chain.open(self._lane, {})

    def _build(self, raw: Raw, position: int) -> T_co:
        running, self._given.raw = self._running, raw
        try:
            with self._seeded(position):
                sample = running.load(position)
        except SkipSample as skip:
            raise SampleError(
                "a hook skips this sample by SkipSample, and random access cannot skip a number",
                at=self.place_of(position),
                hint="exclude it in split.yaml, or return a placeholder that the training loop skips",
            ) from skip
        except StateError as error:
            raise _generator_error("a hook") from error  # positions are keys that name no item of a generator
        except Exception as error:
            error.add_note(f"while building sample {self.place_of(position)}")
            raise
        return sample  # type: ignore[no-any-return] # the type that hooks return

    @contextmanager
    def _seeded(self, position: int) -> Iterator[None]:
        """Set the hooks' context and seed their random numbers, which depend only on the seed and the sample."""
        if not self._chain.runs_user_code:
            yield
            return
        # Random generators belong to the process, so only one thread may draw from them.
        if self._threads.setdefault("at work", get_ident()) != get_ident():
            raise EnergonError(
                "two threads read samples of one dataset at once, but their hooks share random generators",
                hint="read in worker processes (DataLoader's num_workers), or in one thread at a time",
            )
        # Seed the generators for this sample, and restore their states afterwards.
        lane = self._lane
        is_nested = running_hook_context() is lane.context  # a hook of this dataset reads another sample of it
        try:
            with in_hook_context(lane.context), lane.context.seeded_rng(lane.seed, 0, position), preserve_rng_state():
                seed_sample(lane.seed, 0, position)
                yield
        finally:
            if not is_nested:
                self._threads.clear()


def random_access(
    path: str | os.PathLike[str],
    split_part: str | None = "train",
    *,
    task_encoder: TaskEncoder[Any, Any, Any, Any] | None = None,
    excluded: Excluded = "leave_out",
    seed_offset: int = 0,
    **kwargs: Any,
) -> RandomAccessDataset[Any]:
    """Open a dataset whose samples are read by number, for training loops with their own sampler.

    Returns a map-style dataset of torch, a :class:`~loader.integrations.multi_epoch_dataset.SizedDataset`: without
    batches, shuffling or state. Samples are numbered in the order of the shards. The datasets of a metadataset follow
    one another, each once; weights and repetitions are ignored. Samples are cooked and encoded as for validation, by
    ``cook_crude_sample`` or the cookers, and by ``encode_sample``, or ``preencode_sample`` and ``postencode_sample``;
    later hooks are not called.

    The same number always returns the same sample: random numbers that hooks draw are seeded from ``seed_offset`` and
    the sample, and are the same in every epoch. A sample that fails raises its error; no sample is skipped.

    Args:
        path: Folder of a prepared dataset, a file of samples, or a metadataset (``.yaml``).
        split_part: Part of the split; None: all samples of a dataset.
        task_encoder: The hooks; by default samples are of the type that the dataset names.
        excluded: Treatment of samples that ``split.yaml`` excludes. ``"leave_out"``: they have no number, and later
            samples move up. ``"replace"``: they keep their number, under which the next sample that is not excluded
            is read; for a run that has begun, in which neither the length nor any other number may change.
        seed_offset: Seed of the random numbers that hooks draw.
        **kwargs: ``split_config``, ``dataset_config``, ``subflavors``, ``filter_name``, ``trust_code``, ``key_format``
            …, as in :func:`~loader.training.datasets.get_datasets.get_train_dataset`.

    Raises:
        StorageError: The path is missing, or a folder is not prepared.
        ConfigError: An argument or a file of the dataset is invalid; or a hook yields several samples for one.
        TrustError: The dataset needs to run code, and the caller does not allow it.
        TypeError: There is no such argument.
    """
    if "handler" in kwargs:
        raise TypeError("random_access() has no argument 'handler': a sample that fails raises its error")
    if split_part is None and data_kind(path).is_mix:
        message = "expected a split_part for a metadataset, found None: each of its splits mixes other datasets"
        raise ConfigError(message, at=os.fspath(path), hint='pass "train" or "val", or open one of its datasets')
    part = ALL_PARTS if split_part is None else split_part
    encoder = task_encoder if task_encoder is not None else DefaultTaskEncoder()
    leaves = open_leaves(random_access, path, kwargs, task_encoder=encoder, training=False, split_part=part)
    return RandomAccessDataset([leaf.source for leaf in leaves], encoder, excluded=excluded, seed_offset=seed_offset)


def _generator_error(hook: str) -> ConfigError:
    return ConfigError(
        f"{hook} is a generator, which may yield several samples; random access needs one sample for each number",
        hint="return one sample, or load with get_train_dataset or get_val_dataset",
    )
