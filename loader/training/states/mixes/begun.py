"""Begin a chain as a saved run began: on as many ranks, with the same samples left out and windows of its size."""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import StateError
from ....pipeline.contract.stage import SavableDataset
from ....pipeline.reading.source import Source
from ...stats.meter import readers_of
from ..run_state import RunState
from .leaves import DescribedLeaf, match_leaves, sources_in


def begin_as(chain: SavableDataset[object], saved: RunState) -> None:
    """Count the steps, number the samples and cut the windows of a chain as a saved run does.

    Raises:
        StateError: The numbers of the samples that take no turn are damaged.
        EmptyDatasetError: All other samples of a dataset are excluded now.
    """
    chain.begin_on(saved.first_ranks)
    readers = [*readers_of(chain)]
    number_as([source for reader in readers for source in reader.sources], saved)
    for reader in readers:
        reader.number_again()
        reader.window_samples = saved.window


def number_as(sources: Sequence[Source], saved: RunState) -> None:
    """Let the samples take no turn that were excluded when their datasets entered the mix of a saved run.

    A dataset that the run has not had begins now.
    """
    try:
        # Find the datasets of the run, also those that left its mix.
        gone = [
            leaf["source"]
            for entry in reversed(saved.mix_changes)
            for change in entry["stages"].values()
            for leaf in change.get("gone", ())
        ]
        known = [DescribedLeaf(source, 0, None) for source in [*sources_in(saved.dataset), *gone]]
        now = [DescribedLeaf(source.identity(), 0, None) for source in sources]
        for source, origin in zip(sources, match_leaves(dict(enumerate(known)), now), strict=True):
            source.begin_without(None if origin is None else known[origin].source.get("excluded", ""))
            _ = source.samples
    except (AttributeError, TypeError, ValueError) as error:
        raise StateError(f"this state is damaged: {error}", hint="restore another state") from error
