from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..errors import FatalSampleError, SkipSample, plural
from ..samples.source_info import SourceInfo, get_source_info

SYSTEM_EXCEPTIONS = (
    SystemError,
    SyntaxError,
    ImportError,
    StopIteration,
    StopAsyncIteration,
    MemoryError,
    RecursionError,
    ReferenceError,
    NameError,
    UnboundLocalError,
    FatalSampleError,
)
"""Errors that no handler receives, because they are faults of the program and not of a sample."""

_Handler = Callable[[Exception, Any, "list[SourceInfo] | None"], None]


@dataclass
class ErrorContext:
    """A count of samples that failed in a row, for code that processes samples on its own.

    Stages and hooks need none: the ``failure_tolerance`` of their decorators and arguments does the same.

    Args:
        name: Name of the processing step, for messages.
        handler: Function called with the error, the sample and its sources for each failure.
        tolerance: Number of failures in a row that stops the run; 0 for any number.

    >>> def skip(error, sample, sources): ...
    >>> context = ErrorContext(name="resize", handler=skip, tolerance=3)
    >>> with context.handle_errors("a broken sample"):
    ...     raise ValueError("no picture")
    """

    name: str
    handler: _Handler
    tolerance: int = 100
    _consecutive_failures: int = field(default=0, init=False)

    @contextmanager
    def handle_errors(self, sample: Any) -> Iterator[None]:
        """Pass an error of the block to the handler, and count it. A block without error resets the count.

        Args:
            sample: The processed sample.

        Raises:
            FatalSampleError: ``tolerance`` samples in a row failed, or the error is one of `SYSTEM_EXCEPTIONS`.
        """
        try:
            yield
        except SkipSample:
            return
        except SYSTEM_EXCEPTIONS as error:
            message = f"{self.name} failed due to system exception: {error}"
            raise FatalSampleError.from_sample(sample, message) from error
        except Exception as error:
            self.handler(error, sample, get_source_info(sample))
            self._consecutive_failures += 1
            if 0 < self.tolerance <= self._consecutive_failures:
                times = f"{plural(self._consecutive_failures, 'time')} in a row"
                message = f"{self.name} failed {times}. Likely your code or dataset are broken."
                raise FatalSampleError.from_sample(sample, message) from error
        else:
            self.reset()

    def reset(self) -> None:
        """Set the count to 0."""
        self._consecutive_failures = 0


@contextmanager
def handle_restore_errors(error_handler: _Handler, sample: Any) -> Iterator[None]:
    """Pass an error of the block, in which a sample is rebuilt, to a handler.

    Args:
        error_handler: Function called with the error, the sample and its sources.
        sample: The sample that is rebuilt.

    Raises:
        FatalSampleError: The error is one of `SYSTEM_EXCEPTIONS`.
    """
    try:
        yield
    except SYSTEM_EXCEPTIONS as error:
        raise FatalSampleError.from_sample(sample) from error
    except Exception as error:  # noqa: BLE001 - the handler decides
        error_handler(error, sample, get_source_info(sample))
