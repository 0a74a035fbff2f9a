"""Put items into packs of a capacity, or into a number of packs of equal cost: pure functions of their costs."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from .arrays import IntArray
from .errors import ConfigError, error_text, plural
from .extensions import extension_names, load_extension

Costs = npt.ArrayLike
"""Costs of items, at least 0: shape (n,), or (n, k) for k kinds of cost."""
Packer = Callable[[Costs, npt.ArrayLike], list[IntArray]]
"""Returns the item numbers of each pack, ascending; see :func:`best_fit`."""

_FloatArray = npt.NDArray[np.float64]

_EVEN: Final = 1.01  # of the mean: packs below need no swaps
_SWAPS: Final = 12  # of a pack: more gain little
_PACKS_OF_SWAP: Final = 16  # for a swap of each heavy pack, so that it takes less than a microsecond an item
_COMPARED_SWAPS: Final = 1 << 17  # at a time: a millisecond
_RESULT: Final = "a packer returns arrays of item numbers, which have each item once and keep the capacity"
_ROUNDING: Final = 1e-9  # of the capacity: sums of floats differ by less from the sum that they stand for


def first_fit(costs: Costs, capacity: npt.ArrayLike) -> list[IntArray]:
    """Put each item into the first pack that has room for it.

    Johnson, Demers, Ullman, Garey and Graham, *Worst-Case Performance Bounds for Simple One-Dimensional Packing
    Algorithms*, 1974.

    Args:
        costs: Costs of the items, shape (n,) or (n, k).
        capacity: The largest sum of costs of a pack: a number, or one for each of k costs.

    Returns:
        The item numbers of each pack, ascending; packs are in the order in which they were begun.

    Raises:
        ConfigError: A cost is negative, infinite, NaN or above the capacity, or a capacity is not above 0.

    >>> [pack.tolist() for pack in first_fit([4, 7, 4, 2, 3], 10)]
    [[0, 2, 3], [1, 4]]
    """
    return _fit(costs, capacity, takes_fullest=False)


def first_fit_decreasing(costs: Costs, capacity: npt.ArrayLike) -> list[IntArray]:
    """Put each item into the first pack that has room for it, the largest item first.

    Johnson, *Near-Optimal Bin Packing Algorithms*, 1973. It takes and raises what :func:`first_fit` does.

    >>> [pack.tolist() for pack in first_fit_decreasing([4, 7, 4, 2, 3], 10)]
    [[1, 4], [0, 2, 3]]
    """
    return _fit(costs, capacity, takes_fullest=False, is_decreasing=True)


def best_fit(costs: Costs, capacity: npt.ArrayLike) -> list[IntArray]:
    """Put each item into the fullest pack that has room for it.

    Johnson, Demers, Ullman, Garey and Graham, *Worst-Case Performance Bounds for Simple One-Dimensional Packing
    Algorithms*, 1974. It takes and raises what :func:`first_fit` does. With several costs, the fullest pack is the
    one whose shares of room have the smallest sum.

    >>> [pack.tolist() for pack in best_fit([4, 7, 4, 2, 3], 10)]
    [[0, 2, 3], [1, 4]]
    >>> [pack.tolist() for pack in best_fit([[4, 1], [3, 1], [3, 1]], capacity=[10, 2])]
    [[0, 1], [2]]
    """
    return _fit(costs, capacity, takes_fullest=True)


def best_fit_decreasing(costs: Costs, capacity: npt.ArrayLike) -> list[IntArray]:
    """Put each item into the fullest pack that has room for it, the largest item first.

    Johnson, *Near-Optimal Bin Packing Algorithms*, 1973. It takes and raises what :func:`first_fit` does.

    >>> [pack.tolist() for pack in best_fit_decreasing([4, 7, 4, 2, 3], 10)]
    [[1, 4], [0, 2, 3]]
    """
    return _fit(costs, capacity, takes_fullest=True, is_decreasing=True)


def balanced(
    costs: Costs, packs: int, *, capacity: npt.ArrayLike | None = None, equal_counts: bool = False
) -> list[IntArray]:
    """Divide items into a number of packs of near-equal cost: the largest item first, each into the lightest pack.

    Graham, *Bounds on Multiprocessing Timing Anomalies*, 1969. With several costs, each is divided by its mean, and the
    lightest pack is the one whose largest cost is the smallest.

    Args:
        costs: Costs of the items, shape (n,) or (n, k).
        packs: Number of packs.
        capacity: The largest sum of costs of a pack: a number, or one for each of k costs; None for no limit.
        equal_counts: Give each pack the same number of items, or one more for some if they do not divide evenly.

    Returns:
        The item numbers of each pack, ascending.

    Raises:
        ConfigError: A cost is negative, infinite or NaN, there is no pack, or the packs cannot keep the capacity.

    >>> [pack.tolist() for pack in balanced([9, 5, 4, 3, 2, 1], 2)]
    [[0, 3], [1, 2, 4, 5]]
    >>> [pack.tolist() for pack in balanced([9, 5, 4, 3, 2, 1], 2, equal_counts=True)]
    [[0, 3, 5], [1, 2, 4]]
    """
    columns = _checked(costs)
    _check_packs(packs)
    means = columns.mean(axis=0) if len(columns) else np.ones(columns.shape[1])
    means = np.where(means > 0, means, 1)
    shares = columns / means
    if equal_counts:
        if capacity is not None:
            raise ConfigError("packs of equal counts keep no capacity", hint="pass a capacity or equal_counts")
        groups = _by_pack(_dealt_by_rounds(shares, packs), packs)
        has_swaps = columns.shape[1] > 1 and packs >= _PACKS_OF_SWAP and not len(columns) % packs
        return _swapped(shares, groups) if has_swaps else groups
    relative: list[list[float]] = shares.tolist()
    limits = [math.inf] * columns.shape[1]
    if capacity is not None:
        limits = (_capacities(capacity, columns) * (1 + _ROUNDING) / means).tolist()
    of_item = np.zeros(len(columns), np.int64)
    # The largest items come first; of equal loads, the pack with the lowest number.
    waiting = [(0.0, pack) for pack in range(packs)]
    sums = [[0.0] * columns.shape[1] for _ in range(packs)]
    for item in _largest_first(shares).tolist():
        passed = []
        while True:
            if not waiting:
                raise ConfigError(
                    f"item {item} of cost {columns[item].tolist()} fits in none of {packs} packs",
                    hint="pass more packs or a larger capacity",
                )
            _, pack = heapq.heappop(waiting)
            joined = [load + cost for load, cost in zip(sums[pack], relative[item], strict=True)]
            if all(load <= most for load, most in zip(joined, limits, strict=True)):
                break
            passed.append(pack)
        for other in passed:
            heapq.heappush(waiting, (max(sums[other]), other))
        # Add the item, and let the pack wait for another one.
        of_item[item] = pack
        sums[pack] = joined
        heapq.heappush(waiting, (max(sums[pack]), pack))
    return _by_pack(of_item, packs)


def karmarkar_karp(costs: Costs, packs: int, *, equal_counts: bool = False) -> list[IntArray]:
    """Divide items into a number of packs of near-equal cost by differences.

    Karmarkar and Karp, *The Differencing Method of Set Partitioning*, 1982. It levels few items of a pack
    better than :func:`balanced`, and takes the time of items times packs, so it is for few packs, such as the ranks of
    a step.

    Args:
        costs: Costs of the items, shape (n,).
        packs: Number of packs.
        equal_counts: Give each pack the same number of items, or one more for some if they do not divide evenly.

    Raises:
        ConfigError: A cost is negative, infinite or NaN, there are several for an item, or there is no pack.

    >>> [pack.tolist() for pack in karmarkar_karp([8, 7, 6, 5, 4], 2)]
    [[0, 2], [1, 3, 4]]
    """
    columns = _checked(costs)
    _check_packs(packs)
    if columns.shape[1] != 1:
        raise ConfigError(
            f"expected one cost of each item, found {columns.shape[1]}", hint="balanced takes several of each"
        )
    sizes: list[float] = columns[:, 0].tolist()
    order: list[int] = _largest_first(columns).tolist()
    # Begin with partitions of single items, or of as many items as there are packs. Sums descend in each.
    step = packs if equal_counts else 1
    heap: list[tuple[float, int, list[tuple[float, list[int]]]]] = []
    for start in range(0, len(order), step):
        group = [(sizes[item], [item]) for item in order[start : start + step]]
        group += [(0.0, []) for _ in range(packs - len(group))]
        heap.append((group[-1][0] - group[0][0], start, group))
    heapq.heapify(heap)
    # Join the two partitions that differ most: the largest pack of one with the smallest of the other.
    while len(heap) > 1:
        _, start, first = heapq.heappop(heap)
        _, _, second = heapq.heappop(heap)
        joined = [(a + b, [*items, *others]) for (a, items), (b, others) in zip(first, reversed(second), strict=True)]
        joined.sort(key=lambda pack: (-pack[0], pack[1][:1]))
        heapq.heappush(heap, (joined[-1][0] - joined[0][0], start, joined))
    groups = heap[0][2] if heap else [(0.0, list[int]()) for _ in range(packs)]
    ordered = sorted((sorted(items) for _, items in groups), key=lambda items: (not items, items))
    return [np.array(items, np.int64) for items in ordered]


# ------------------------------------------------------------------------------------------------- fits of one cost


def _first_fit(costs: list[float], capacity: float) -> list[int]:
    # A tree whose leaves are packs and whose other nodes have the most room below them.
    leaves = 1 << max(0, len(costs) - 1).bit_length()
    room = [capacity] * (2 * leaves)
    of_item = []
    for cost in costs:
        node = 1
        while node < leaves:
            node *= 2
            if room[node] < cost:
                node += 1
        of_item.append(node - leaves)
        room[node] -= cost
        while node > 1:
            node //= 2
            most = max(room[2 * node], room[2 * node + 1])
            if room[node] == most:
                break
            room[node] = most
    return of_item


def _best_fit(costs: list[float], capacity: float) -> list[int]:
    """Return the pack of each item; the rooms of packs that can take another item are in a sorted list."""
    least = min(costs, default=0)
    rooms: list[float] = []  # each of them once, ascending
    packs: dict[float, list[int]] = {}  # by their room
    of_item, begun = [], 0
    for cost in costs:
        at = bisect_left(rooms, cost)
        if at < len(rooms):
            room = rooms[at]
            waiting = packs[room]
            pack = waiting.pop()
            if not waiting:
                del rooms[at], packs[room]
        else:
            room, pack, begun = capacity, begun, begun + 1
        of_item.append(pack)
        room -= cost
        if room in packs:
            packs[room].append(pack)
        elif room >= least:
            packs[room] = [pack]
            insort(rooms, room)
    return of_item


def _dealt_by_rounds(shares: _FloatArray, packs: int) -> IntArray:
    """Return the pack of each item: in each round, the largest items left go to the packs, one to each.

    In a round, the larger an item, the lighter its pack. With several costs, items and packs are compared in the
    direction in which the loads of the packs differ most, nearly: by the covariances with the cost that varies most.

    Args:
        shares: Costs as shares of their means, shape (n, k).
    """
    order = _largest_first(shares)
    # Let costs be above or below the mean of their round, so that loads are above or below the mean of the packs.
    costs = shares[order]
    rounds = costs[: len(order) // packs * packs].reshape(-1, packs, shares.shape[1])
    rounds -= rounds.mean(axis=1, keepdims=True)
    of_item = np.empty(len(shares), np.int64)
    loads = np.zeros((packs, shares.shape[1]))
    direction = np.ones(shares.shape[1])
    for start in range(0, len(order), packs):
        # A library of linear algebra may round differently on another processor, where a run may continue. Numpy's sums
        # and products do not; methods of arrays take a microsecond more each.
        if start and shares.shape[1] > 1:
            most = np.add.reduce(loads * loads).argmax()
            direction = np.add.reduce(loads * loads[:, most, None])
        of_round = costs[start : start + packs]
        largest_first = np.add.reduce(of_round * -direction, axis=1).argsort(kind="stable")
        lightest = np.add.reduce(loads * direction, axis=1).argsort(kind="stable")[: len(of_round)]
        of_item[order[start : start + packs][largest_first]] = lightest
        loads[lightest] += of_round[largest_first]
    return of_item


def _swapped(shares: _FloatArray, packs: list[IntArray]) -> list[IntArray]:
    """Return packs of equal counts, after swaps of items between heavy packs and light ones.

    A pack whose largest item is far above the others is heavy after the rounds, since it got an item in each.

    Args:
        shares: Costs as shares of their means, shape (n, k).
    """
    items = np.array(packs, np.int64).reshape(len(packs), -1)
    pairs = min(len(packs) // 2, _COMPARED_SWAPS // max(1, items.shape[1] ** 2))
    loads = shares[items].mean(axis=1)
    for _ in range(min(_SWAPS, len(packs) // _PACKS_OF_SWAP)):
        # Pair the heaviest packs with the lightest ones.
        largest = loads.max(axis=1, initial=0)
        order = np.argsort(largest, kind="stable")
        heavy, light = order[::-1][:pairs], order[:pairs]
        is_heavy = largest[heavy] > _EVEN
        heavy, light = heavy[is_heavy], light[is_heavy]
        if not len(heavy):
            break
        # Of all pairs of items, take those that leave the least in the heavier pack.
        left = np.zeros((len(heavy), items.shape[1], items.shape[1]))
        for cost in range(shares.shape[1]):
            column = shares[:, cost] / items.shape[1]
            moved = column[items[heavy]][:, :, None] - column[items[light]][:, None]
            np.maximum(left, moved + loads[light, cost][:, None, None], out=left)
            np.maximum(left, loads[heavy, cost][:, None, None] - moved, out=left)
        every = left.reshape(len(heavy), -1)
        best = every.argmin(axis=1)
        is_better = every[np.arange(len(heavy)), best] < largest[heavy] - _ROUNDING
        heavy, light = heavy[is_better], light[is_better]
        if not len(heavy):
            break
        ours, theirs = np.divmod(best[is_better], items.shape[1])
        given, taken = items[heavy, ours], items[light, theirs]
        items[heavy, ours], items[light, theirs] = taken, given
        change = (shares[given] - shares[taken]) / items.shape[1]
        loads[heavy] -= change
        loads[light] += change
    return [*np.sort(items, axis=1)]


def _fit(costs: Costs, capacity: npt.ArrayLike, *, takes_fullest: bool, is_decreasing: bool = False) -> list[IntArray]:
    columns = _checked(costs)
    limits = _capacities(capacity, columns)
    above = np.flatnonzero((columns > limits).any(axis=1))
    if len(above):
        item = int(above[0])
        raise ConfigError(
            f"{len(above)} of {plural(len(columns), 'item')} above the capacity {limits.tolist()}: item {item} costs "
            f"{columns[item].tolist()}",
            hint="leave them out, or pass a larger capacity",
        )
    order = _largest_first(columns / limits) if is_decreasing else np.arange(len(columns))
    of_item = np.empty(len(columns), np.int64)
    if columns.shape[1] > 1:
        of_item[order] = _fit_of_several(columns[order] / limits, takes_fullest=takes_fullest)
    else:
        fit = _best_fit if takes_fullest else _first_fit
        of_item[order] = fit(columns[order, 0].tolist(), float(limits[0]) * (1 + _ROUNDING))
    return _by_pack(of_item, int(of_item.max(initial=-1)) + 1)


def _fit_of_several(shares: _FloatArray, *, takes_fullest: bool) -> list[int]:
    """Return the pack of each item.

    Args:
        shares: Costs as shares of the capacity, shape (n, k).
    """
    room = np.full(shares.shape, 1 + _ROUNDING)  # of as many packs as there are items
    of_item, packs = [], 0
    for share in shares:
        fits = np.flatnonzero((room[:packs] >= share).all(axis=1))
        if len(fits):
            pack = int(fits[room[fits].sum(axis=1).argmin()] if takes_fullest else fits[0])
        else:
            pack, packs = packs, packs + 1
        of_item.append(pack)
        room[pack] -= share
    return of_item


# ------------------------------------------------------------------------------------------------------- arguments


def _checked(costs: Costs) -> _FloatArray:
    """Return costs, shape (n, k)."""
    array = np.asarray(costs, np.float64)
    if array.ndim not in (1, 2):
        raise ConfigError(f"expected costs of the shape (n,) or (n, k), found {array.shape}")
    columns = array.reshape(len(array), -1) if array.size else array.reshape(0, array.shape[1] if array.ndim > 1 else 1)
    wrong = np.flatnonzero(~(np.isfinite(columns) & (columns >= 0)).all(axis=1))
    if len(wrong):
        raise ConfigError(
            f"expected costs of at least 0, found {columns[wrong[0]].tolist()} for item {wrong[0]}"
            f" ({len(wrong)} of {plural(len(columns), 'item')})"
        )
    return columns


def _capacities(capacity: npt.ArrayLike, columns: _FloatArray) -> _FloatArray:
    limits = np.atleast_1d(np.asarray(capacity, np.float64))
    if limits.shape != columns.shape[1:] or not (np.isfinite(limits) & (limits > 0)).all():
        raise ConfigError(f"expected a capacity above 0 for each of {columns.shape[1]} costs, found {limits.tolist()}")
    return limits


def _check_packs(packs: int) -> None:
    if packs < 1:
        raise ConfigError(f"expected at least 1 pack, found {packs}")


def _largest_first(relative: _FloatArray) -> IntArray:
    return np.argsort(-relative.max(axis=1, initial=0), kind="stable")


def _by_pack(of_item: IntArray, packs: int) -> list[IntArray]:
    items = np.argsort(of_item, kind="stable")
    return np.split(items, np.cumsum(np.bincount(of_item, minlength=packs))[:-1]) if packs else []


PACKERS: Final[dict[str, Packer]] = {
    "first_fit": first_fit,
    "first_fit_decreasing": first_fit_decreasing,
    "best_fit": best_fit,
    "best_fit_decreasing": best_fit_decreasing,
}
"""Packers with a capacity, by their names."""


def packer_named(name: str) -> Packer:
    """Return a packer by its name: of this module, or of an installed package.

    Raises:
        ConfigError: There is no such packer.
    """
    packer: Packer | None = PACKERS.get(name) or load_extension("packers", name)
    if packer is None:
        names = [*PACKERS, *extension_names("packers")]
        raise ConfigError(f"there is no packer {name!r}", hint=f"name one of {', '.join(names)}")
    return packer


def packed(name: str, costs: _FloatArray, capacity: tuple[float, ...]) -> list[IntArray]:
    """Return the packs that a packer makes of some items, without empty ones.

    Args:
        name: Name of the packer.
        costs: Costs of the items, at least one, shape (n, k).
        capacity: The largest sum of each cost in a pack.

    Raises:
        ConfigError: The packer fails, or its packs are not integers, lack items, or exceed the capacity.
    """
    packer = packer_named(name)
    try:
        packs = [np.asarray(pack) for pack in packer(costs, capacity)]
    except Exception as error:
        if name in PACKERS:  # the costs are wrong, which it says
            raise
        raise ConfigError(f"the packer {name!r} failed: {error_text(error)}", hint=_RESULT) from error
    # Check that each item is in one pack.
    wrong = next((pack for pack in packs if pack.ndim != 1 or (len(pack) and pack.dtype.kind not in "iu")), None)
    if wrong is not None:
        raise ConfigError(
            f"the packer {name!r} returned a pack of type {wrong.dtype} and shape {wrong.shape}", hint=_RESULT
        )
    packs = [pack for pack in packs if len(pack)]
    items = np.concatenate([np.empty(0, np.int64), *packs])
    if not np.array_equal(np.sort(items), np.arange(len(costs))):
        raise ConfigError(
            f"the packer {name!r} put {plural(len(items), 'item')} into packs, given {len(costs):,}", hint=_RESULT
        )
    # Check that no pack is too full.
    sizes = np.array([*map(len, packs)])
    sums = np.add.reduceat(costs[items], np.cumsum(sizes) - sizes)
    above = (sums > np.array(capacity) * (1 + 2 * _ROUNDING)).any(axis=1)  # fits add one at a time: another rounding
    if above.any():
        raise ConfigError(
            f"the packer {name!r} made a pack that costs {sums[above.argmax()].tolist()}, above the capacity "
            f"{[*capacity]}",
            hint=_RESULT,
        )
    return packs
