"""Micro-batches that are taken ahead of the training loop, and copied to a device meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Self, TypeVar

import torch.utils.data

from ...errors import ConfigError
from ...pipeline.contract.worker_config import check_at_least, check_integers
from ...samples.batching.device_copy import DeviceCopies, PendingCopy
from .run import iteration_over

T_co = TypeVar("T_co", covariant=True)

_NEW_BATCHES = 1  # by which the number ahead grows a step, so that the first micro-batch comes no later


class RestoredLoader:
    """The methods of a loader that restore a state and return the loader."""

    restore_state_rank: Callable[..., None]
    restore_state_global: Callable[..., None]

    def with_restored_state_rank(
        self, state: dict[str, Any] | None, *, allow_mix_change: bool = False, allow_edited_state: bool = False
    ) -> Self:
        """Restore the state of this rank as :meth:`restore_state_rank` does, and return the loader.

        ``with get_savable_loader(dataset).with_restored_state_rank(state) as loader: …`` starts the workers after that.
        """
        self.restore_state_rank(state, allow_mix_change=allow_mix_change, allow_edited_state=allow_edited_state)
        return self

    def with_restored_state_global(
        self,
        state: Sequence[dict[str, Any]] | None,
        *,
        src_rank: int | None = None,
        allow_mix_change: bool = False,
        allow_edited_state: bool = False,
    ) -> Self:
        self.restore_state_global(
            state, src_rank=src_rank, allow_mix_change=allow_mix_change, allow_edited_state=allow_edited_state
        )
        return self


class DeviceBatches(RestoredLoader, Generic[T_co]):
    """Iterate the micro-batches of a loader on a device: :meth:`.DataLoader.to_device` returns it.

    It takes ``prefetch`` micro-batches ahead and starts their copies while the training loop computes. A state that is
    saved meanwhile, here or by the loader, is the state after the last micro-batch that the training loop got. All
    other attributes are taken from the loader: ``save_state_rank``, ``worker_config``, ``shutdown`` ….

    As with the loader, an iteration that was left is continued by the next one in training, and starts over in
    validation.

    Args:
        loader: The loader.
        device: The device of tensors.
        prefetch: Micro-batches that are on their way to the device; 0 copies each when it is due.

    Raises:
        ConfigError: ``prefetch`` is below 0, torch knows no such device, or it is ``meta``.
        TypeError: ``prefetch`` is not an integer.
    """

    def __init__(self, loader: torch.utils.data.DataLoader[T_co], device: Any, *, prefetch: int = 2) -> None:
        # Check the arguments now: the first iteration may be much later.
        check_integers({"prefetch": prefetch}, may_be_none=False)
        check_at_least(0, "micro-batches", prefetch=prefetch)
        try:
            self.device = torch.device(device)
        except (RuntimeError, TypeError) as error:  # torch knows no such device
            cause = str(error).partition("\n")[0]
            raise ConfigError(f"expected a device such as 'cuda' or 'cpu', found {device!r}: {cause}") from error
        if self.device.type == "meta":
            raise ConfigError(
                "expected a device with memory, such as 'cuda' or 'cpu', found 'meta', whose tensors have no values",
                hint="iterate the loader itself, and convert its tensors where you need their shapes",
            )
        # Keep the loader; its workers start with the first iteration.
        self.prefetch = prefetch
        self._loader: Any = loader  # a DataLoader of this package, which imports this module
        self._copies = DeviceCopies(self.device)
        self._ahead: _Ahead | None = None

    def __iter__(self) -> Iterator[T_co]:
        ahead = self._ahead
        if ahead is None or not ahead.continues(self._loader.run):
            ahead = self._ahead = _Ahead(self._loader, self._copies, self.prefetch)
        return iter(ahead)

    def __len__(self) -> int:
        return len(self._loader)

    def __bool__(self) -> bool:
        return True  # Python would call __len__, which may be 0

    def __str__(self) -> str:
        return f"{type(self).__name__}(device={str(self.device)!r}, prefetch={self.prefetch})\n└─ " + str(
            self._loader
        ).replace("\n", "\n   ")

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":
            raise AttributeError(name)  # of a copy that has no attributes yet
        return getattr(self._loader, name)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self._loader.shutdown()

    def start(self) -> Self:
        self._loader.start()
        return self


class _Ahead:
    """One iteration over a loader that takes some micro-batches ahead."""

    def __init__(self, loader: Any, copies: DeviceCopies, prefetch: int) -> None:
        self._items = iter(loader)
        self._run: Any = loader.run
        self._iteration = self._run.iteration
        self._starts: int | None = None  # of the workers, with the last micro-batch that was taken
        self._copies = copies
        self._prefetch = prefetch
        self._wanted = _NEW_BATCHES
        self._queue: deque[tuple[PendingCopy, Any]] = deque()  # and the position after each
        self._is_over = False
        self._failure: Exception | None = None
        self._run.hold(self._run.position())

    def continues(self, run: Any) -> bool:
        # After a shutdown, the items of this iteration have ended, whether or not workers run again.
        is_running = run.lanes.is_running and self._starts in (None, run.lanes.starts)
        has_more = bool(self._queue) if self._is_over else is_running
        return has_more and run.iteration is self._iteration and self._failure is None and not run.starts_over

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                # Start further copies before the oldest one is awaited.
                self._fill()
                if not self._queue:
                    break
                pending, position = self._queue.popleft()
                batch = self._copies.finish(pending)
                del pending  # the memory of its source is used again once no one refers to it
                # States that are saved from here on are of this micro-batch, not of the copies ahead of it.
                self._run.hold(position)
            except BaseException:
                self._iteration = None  # the next iteration continues after the last delivered micro-batch
                raise
            yield batch
            del batch
            # Another iteration of the loader has begun: the copies ahead are of the old one.
            if self._run.iteration is not self._iteration:
                self._queue.clear()
                raise iteration_over()
        # An error of the loader is raised after the micro-batches that were made before it.
        if self._failure is not None:
            failure, self._failure = self._failure, None
            self._iteration = None
            raise failure
        self._run.hold(None)

    def _fill(self) -> None:
        while len(self._queue) < self._wanted and not self._is_over:
            try:
                batch = next(self._items)
            except StopIteration:
                self._is_over = True
            except Exception as error:
                self._failure, self._is_over = error, True
            else:
                self._starts = self._run.lanes.starts
                self._queue.append((self._copies.start(batch), self._run.position()))
        self._wanted = min(self._wanted + _NEW_BATCHES, self._prefetch + 1)
