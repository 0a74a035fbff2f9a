"""The number of samples that may fail before an import stops."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import SampleError, plural

_SHARE_OF_FAILURES = 0.01  # one damaged file in a hundred is usual in data from the web


@dataclass(frozen=True, slots=True)
class FailureLimit:
    """The rows of an import that may fail.

    Args:
        rows: Number of all rows.
        given: Most failures, or a share below 1; None for 1 %, or one.
        at: The place that errors name.
        command: Only ``import`` may allow failures.
    """

    rows: int
    given: float | None
    at: str = ""
    command: str = "import"

    @property
    def allowed(self) -> float:
        """A number, or a share below 1."""
        return (_SHARE_OF_FAILURES if _SHARE_OF_FAILURES * self.rows >= 1 else 1) if self.given is None else self.given

    def is_exceeded(self, failed: int) -> bool:
        limit = self.allowed
        return failed > (round(limit * self.rows, 3) if limit < 1 else limit)  # 100 % is a little less than 1

    def check(self, failed: int, *, example: str, is_end: bool = False) -> None:
        """Raise a ``SampleError`` that names the limit to pass, if more rows failed.

        Args:
            is_end: All rows were tried; else others may fail, too.
        """
        if not self.is_exceeded(failed):
            return
        limit = self.allowed
        allowed = f"{100 * limit:.3g}%" if limit < 1 else f"{limit:g}"
        least = "" if is_end or failed == self.rows else "at least "
        enough = f"100%, or {failed} if no other sample fails" if least else f"{failed}"
        # If all rows fail, there is no dataset with any limit.
        more = f", or pass --max-failures {enough}" if failed < self.rows and self.command == "import" else ""
        raise SampleError(
            f"{least}{failed:,} of {plural(self.rows, 'sample')} failed; at most {allowed} may fail. {example}",
            at=self.at,
            hint=f"fix them{more}; otherwise the same command ends the same way. Shards that are written are kept",
        )
