"""Blend by volume: choose the dataset of each item from the sizes of the items before it.

A lane counts, for each dataset i, the volume ``c_i`` of its items, and their sum T. Among the datasets that are not
ahead, ``c_i ≤ w_i T`` for weights that sum to 1, the next item is of the one whose deadline
``(c_i + u a_i) / w_i`` is the earliest. ``a_i`` is the average size of its items, and u a number in [0, 1) that
differs for each lane, dataset and item: without it, all lanes would take the same dataset at the same step if the sizes
are constant. A dataset without items counts with the average of all.

Let ``M_i`` be the largest size of an item of dataset i, L the largest one of any dataset, all sizes above 0. After each
step:

- a dataset is ahead of its target by less than its own largest item: ``c_i - w_i T ≤ (1 - w_i) M_i``;
- it is behind by at most ``L + w_i (L + sum of the other M_j)``. That is the worst case, for sizes that are not known
  before; with sizes of a heavy tail it is rarely above ``M_i + w_i L``.

No rule keeps each dataset within one own item behind its target: a single item of size L of another dataset puts it
``w_i L`` behind. The second bound is known from fair queueing: an item waits for one item that was begun before, and
for items with earlier deadlines. Their volumes are their shares of the time until its deadline, plus at most one item
of each dataset. Over several lanes, the bounds of the lanes add up.

Weights may change. The target of a dataset is then the sum of its shares of the volumes between the changes, and both
``c_i`` and T count from the last change on, where ``c_i`` begins at the distance from the target. A dataset of weight 0
gets no item. What it lacks of its target then, the others have together. Let ``w_i`` be the largest share of dataset i
so far, and H the most that the datasets of weight 0 lacked together. After each step, a dataset is

- ahead of its target by at most ``M_i + w_i H``: less than one own item, unless a dataset left while it was behind;
- behind it by at most ``L + M_i + w_i (L + sum of all M_j)``.

Items of size 0, and skipped ones, do not change a volume. So that they do not delay the other datasets forever, each
counts for the choice like an average item until its dataset yields one with a size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import fsum, isfinite

import numpy as np

from .permutation import mix

LeafVolume = tuple[int, float, float]
"""Of a dataset: number of items with a size, their volume, and the volume that empty items since then count as."""

_PHASE = 26  # purpose of the random numbers: part of their seed
_GOLDEN = 0.6180339887498949  # multiples of it, modulo 1, are spread evenly


@dataclass(frozen=True, slots=True)
class VolumeChange:
    """The counts of a blend at the last change of its weights.

    Attributes:
        total: The volume of all items.
        items: The number of items with a size.
        targets: For each dataset whose target is above 0, by its place, the target.
    """

    total: float = 0.0
    items: int = 0
    targets: Mapping[int, float] = field(default_factory=dict)


class VolumeBlend:
    """The choices of one lane.

    Args:
        weights: For each dataset, its share of the volume, in any unit: at least 0, and one of them above 0.
        lane: The lane.
        seed: Seed of the run.
        origins: For each dataset, the number that seeds its choices; by default its place.
        total: The volume of all items so far.
        volumes: For each dataset with items, by its place, what :meth:`volume` returned.
        changed: The last change of the weights; None if they have not changed, or before the first item.

    Raises:
        ValueError: A weight is below 0 or not finite, or none is above 0.

    >>> blend = VolumeBlend([1.0, 1.0], lane=0, seed=0)
    >>> for size in [3, 1, 1, 1]:
    ...     blend.count(blend.choose(), size)
    >>> [blend.volume(place)[1] for place in range(2)]
    [3.0, 3.0]
    """

    def __init__(
        self,
        weights: Sequence[float],
        *,
        lane: int,
        seed: int,
        origins: Sequence[int] | None = None,
        total: float = 0.0,
        volumes: Mapping[int, LeafVolume] | None = None,
        changed: VolumeChange | None = None,
    ) -> None:
        numbers = np.arange(len(weights)) if origins is None else np.asarray(origins, dtype=np.int64)
        words = mix(seed, _PHASE, lane, numbers) >> np.uint64(11)
        self._phases: list[float] = (words / float(1 << 53)).tolist()  # in [0, 1)
        self._volumes = dict(volumes or {})
        self.total = total
        """The volume of all items."""
        self.changed = changed
        """The last change of the weights; None if they have not changed since the first item."""
        self._items = sum(items for items, _, _ in self._volumes.values())
        self._begin(weights)

    def change(self, weights: Sequence[float]) -> None:
        """Change the weights from the next item on.

        Raises:
            ValueError: As for the class.
        """
        if self._items:
            targets = {index: self.target(index) for index in range(len(self._shares))}
            targets = {index: target for index, target in targets.items() if target}
            self.changed = VolumeChange(self.total, self._items, targets)
        self._begin(weights)

    def _begin(self, weights: Sequence[float]) -> None:
        if not all(isfinite(weight) and weight >= 0 for weight in weights) or not any(weights):
            raise ValueError(f"expected weights above 0, found {list(weights)}")
        largest = max(weights)  # dividing by it first keeps the sum of large weights finite
        whole = fsum(weight / largest for weight in weights)
        self._shares = [max(weight / largest / whole, 5e-324) if weight else 0.0 for weight in weights]
        used = [index for index, share in enumerate(self._shares) if share]
        # Datasets with items that are ahead, by the total at which they are not any more; and the others, by deadline.
        self._ahead: list[tuple[float, float, int]] = []
        self._ready: list[tuple[float, int]] = []
        self._fresh: list[int] = []
        self._chosen: int | None = None
        self._targets: Mapping[int, float] = {}
        self._start = 0.0
        fresh = [index for index in used if index not in self._volumes]
        if self.changed is None:
            # Those without items, the next one last. Their deadlines are multiples of one average.
            self._deadlines = {index: self._phases[index] / self._shares[index] for index in fresh}
            self._fresh = sorted(fresh, key=lambda index: (self._deadlines[index], index), reverse=True)
        else:
            self._targets = targets = self.changed.targets
            left_out = [index for index, share in enumerate(self._shares) if not share]
            lack = fsum(targets.get(index, 0.0) - self.volume(index)[1] for index in left_out)
            self._start = self.changed.total - lack
            average = self.changed.total / self.changed.items
            for index in fresh:
                share, target = self._shares[index], targets.get(index, 0.0)
                deadline = self._start + (self._phases[index] * average - target) / share
                heappush(self._ahead, (self._start - target / share, deadline, index))
        for index in used:
            if index in self._volumes:
                self._add(index, self._volumes[index])

    def choose(self) -> int:
        """Return the place of the dataset of the next item; the same until :meth:`count` is called."""
        if self._chosen is not None:
            return self._chosen
        # Datasets that are no longer ahead of their share become ready, the earliest deadline first.
        ahead, ready, total = self._ahead, self._ready, self.total
        while ahead and ahead[0][0] <= total:
            _, deadline, index = heappop(ahead)
            if not ready and not self._fresh and not (ahead and ahead[0][0] <= total):
                self._chosen = index  # the only one; most choices among few datasets are
                return index
            heappush(ready, (deadline, index))
        # Datasets without items have their deadlines in items, which the average size converts.
        if self._fresh:
            index = self._fresh[-1]
            average = total / self._items if self._items else 1.0
            if not ready or (self._deadlines[index] * average, index) <= ready[0]:
                self._chosen = self._fresh.pop()
                return self._chosen
        # If all are ahead, because of rounding or of empty items, the one that is least.
        self._chosen = heappop(ready)[1] if ready else heappop(ahead)[2]
        return self._chosen

    def count(self, index: int, size: float) -> None:
        """Count the item of a dataset that :meth:`choose` returned.

        Args:
            size: The item's size, finite and at least 0; 0 for a skipped item.
        """
        items, volume, empty = self._volumes.get(index, (0, 0.0, 0.0))
        if size:
            self.total += size
            self._items += 1
            counts = items + 1, volume + size, 0.0
        else:
            counts = items, volume, empty + (self.total / self._items if self._items else 1.0)
        self._volumes[index] = counts
        self._chosen = None
        self._add(index, counts)

    def _add(self, index: int, counts: LeafVolume) -> None:
        """Add a dataset with items: by the total at which it has its share, and by the deadline of its next item."""
        items, volume, empty = counts
        share, lead = self._shares[index], volume + empty
        if self._targets:
            lead -= self._targets.get(index, 0.0)
        start = deadline = self._start + lead / share
        if items:
            spread = (self._phases[index] + items * _GOLDEN) % 1.0
            deadline = self._start + (lead + spread * (volume / items)) / share
        if start <= self.total:
            heappush(self._ready, (deadline, index))
        else:
            heappush(self._ahead, (start, deadline, index))

    def volume(self, index: int) -> LeafVolume:
        return self._volumes.get(index, (0, 0.0, 0.0))

    def target(self, index: int) -> float:
        """Return the volume that a dataset would have if each had exactly its share, between all changes."""
        if self.changed is None:
            return self._shares[index] * self.total
        return self.changed.targets.get(index, 0.0) + self._shares[index] * (self.total - self.changed.total)
