"""The account of a command: used + left out + failed = seen, for each unit of its input; and what its codes mean."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from ..errors import EnergonError, plural

_SEVERITIES = {"E": "error", "W": "warning", "L": "left out", "F": "failed"}
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


@dataclass(frozen=True, eq=False)
class Rule:
    """The explanation of a code; all texts but the meaning are Markdown of ``docs/reference/findings.md``.

    Attributes:
        meaning: The fault, in one line of plain text.
        why: Consequences of the fault.
        action: Instruction that resolves it.
        example: A case in which it is found.
        code: The letter of the severity, and a number.
    """

    meaning: str
    _: KW_ONLY
    why: str
    action: str
    example: str
    code: str = ""

    @property
    def severity(self) -> str:
        """``error`` (exit code 1) or ``warning``; of a reason, ``left out`` or ``failed``."""
        return _SEVERITIES[self.code[0]]


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """The rules of one kind of fault, with a remark on all of them in Markdown."""

    title: str
    note: str
    rules: tuple[Rule, ...]


@cache  # most commands leave nothing out, so the texts are read when a reason is first named
def reasons() -> RuleGroup:
    """Return the reasons why input is left out or fails."""
    import tomllib

    texts = tomllib.loads(Path(__file__).with_name("reasons.toml").read_text("utf-8"))
    return RuleGroup(
        texts["title"], texts["note"], tuple(Rule(code=code, **rule) for code, rule in texts["reasons"].items())
    )


@cache
def meanings() -> dict[str, str]:
    """Return the meaning of each reason, by code."""
    return {rule.code: rule.meaning for rule in reasons().rules}


def plain_text(markdown: str) -> str:
    """Return a line of Markdown as plain text: without backticks, and with the targets of links in parentheses.

    >>> plain_text("edit `split.yaml`; see [Choose the split](../how-to/choose-the-split.md)")
    'edit split.yaml; see Choose the split (docs/how-to/choose-the-split.md)'
    """
    return _LINK.sub(lambda link: f"{link[1]} ({link[2].replace('../', 'docs/', 1)})", markdown).replace("`", "")


Unit = Literal["files", "members", "rows", "samples", "parts", "bytes"]
"""What is counted: files of a folder, members of an archive, rows of a table or document, and what they hold."""

_UNITS: tuple[Unit, ...] = get_args(Unit)


class AccountError(EnergonError):
    """An account does not balance, which is a bug of this toolkit: a unit of the input has no fate, or two."""


class IncompleteError(EnergonError):
    """A strict command would leave out a part of its input, or failed on it."""


class AccountEntry(msgspec.Struct, frozen=True, array_like=True):
    """Units of one kind that share a fate.

    Attributes:
        unit: What is counted.
        reason: Code of the reason, one of :func:`~.rules.reasons`.
        count: Number of units.
        size_bytes: Bytes of the units, as far as their sizes are known.
        example: Name of the first one.
    """

    unit: Unit
    reason: str
    count: int
    size_bytes: int
    example: str


class Account:
    """Counts what a command sees of its input, and what becomes of it.

    The reader of a unit calls :meth:`see`, and the code that decides on it :meth:`use`, :meth:`leave` or :meth:`fail`.
    :meth:`check` compares the sums. The bytes of units that are left out or failed are counted with them.

    >>> account = Account()
    >>> account.see("files", 3)
    >>> account.use("files", 2)
    >>> account.leave("files", "L101", "README", size_bytes=20)
    >>> account.check()
    >>> account.to_document()["left_out"]
    [{'unit': 'files', 'reason': 'L101', 'count': 1, 'bytes': 20, 'example': 'README', 'meaning': 'a file without an extension'}]
    """  # noqa: E501 - one line of output

    def __init__(self) -> None:
        self._seen: Counter[Unit] = Counter()
        self._used: Counter[Unit] = Counter()
        self._others: dict[tuple[Unit, str], AccountEntry] = {}
        self.hidden = 0
        """Number of hidden files and folders, and of files that this toolkit has written, which are no input."""

    def see(self, unit: Unit, count: int = 1) -> None:
        """Count units that the command has read from its input."""
        self._seen[unit] += count

    def use(self, unit: Unit, count: int = 1) -> None:
        """Count units whose contents go into the output."""
        self._used[unit] += count

    def take(self, unit: Unit, count: int = 1) -> None:
        """Count units that are both seen and used."""
        self._seen[unit] += count
        self._used[unit] += count

    def add(self, entry: AccountEntry, *, path: str) -> None:
        """Count units of an entry that another process has made; its example is a name below ``path``."""
        self._add(msgspec.structs.replace(entry, example=f"{path}/{entry.example}"))

    def leave(self, unit: Unit, reason: str, example: str, *, count: int = 1, size_bytes: int = 0) -> None:
        """Count units that are left out.

        Args:
            reason: Code of the reason; it begins with L.
            example: Name of the first unit, as a user would look for it.
            size_bytes: Their bytes, if they are known.
        """
        self._add(AccountEntry(unit, reason, count, size_bytes, example))

    def lose(self, unit: Unit, reason: str, example: str, *, count: int = 1, size_bytes: int = 0) -> None:
        """Count units that were read and are not used; see :meth:`leave`."""
        self.see(unit, count)
        self.leave(unit, reason, example, count=count, size_bytes=size_bytes)

    def withdraw(self, unit: Unit, reason: str, example: str, *, count: int = 1, size_bytes: int = 0) -> None:
        """Move units from used to left out or failed: their contents proved to be unusable."""
        self._used[unit] -= count
        self._add(AccountEntry(unit, reason, count, size_bytes, example))

    def reclaim(self, unit: Unit, reason: str, *, size_bytes: int = 0) -> None:
        """Move a unit from left out to used: a table names it, for example."""
        entry = self._others.pop((unit, reason))
        self._used[unit] += 1
        if entry.count > 1:
            self._others[unit, reason] = msgspec.structs.replace(
                entry, count=entry.count - 1, size_bytes=entry.size_bytes - size_bytes
            )

    def _add(self, entry: AccountEntry) -> None:
        if not entry.count:
            return
        if entry.reason not in meanings():
            raise AccountError(f"there is no reason {entry.reason!r} for what is left out")
        key = entry.unit, entry.reason
        earlier = self._others.get(key)
        if earlier is not None:
            entry = AccountEntry(
                *key, earlier.count + entry.count, earlier.size_bytes + entry.size_bytes, earlier.example
            )
        self._others[key] = entry

    @property
    def left_out(self) -> list[AccountEntry]:
        """The units that were left out, by reason."""
        return [entry for entry in self._others.values() if entry.reason.startswith("L")]

    @property
    def failed(self) -> list[AccountEntry]:
        """The units that failed, by reason."""
        return [entry for entry in self._others.values() if entry.reason.startswith("F")]

    @property
    def is_complete(self) -> bool:
        """True if everything was used."""
        return not self._others

    def merge(self, other: Account) -> None:
        """Add the account of another process or shard."""
        self._seen.update(other._seen)
        self._used.update(other._used)
        self.hidden += other.hidden
        for entry in other._others.values():
            self._add(entry)

    def check(self) -> None:
        """Check that every unit has one fate; raise an ``AccountError`` if the sums differ."""
        for unit in _UNITS:
            others = sum(entry.count for entry in self._others.values() if entry.unit == unit)
            if self._used[unit] + others != self._seen[unit]:
                raise AccountError(
                    f"{self._seen[unit]:,} {unit} were read, but {self._used[unit]:,} used and {others:,} left out or"
                    " failed",
                    hint="this is a bug: please report it with the layout of your data; nothing was published",
                )

    def check_complete(self, *, at: str) -> None:
        """Check that everything was used, for ``--strict``."""
        entries = [*self.left_out, *self.failed]
        if entries:
            lines = [
                f"{plural(e.count, e.unit[:-1])}: {meanings()[e.reason]} [{e.reason}], first {e.example}"
                for e in entries
            ]
            raise IncompleteError(
                "some input would not be in the output, which --strict refuses\n" + "\n".join(lines),
                at=at,
                hint="energon rule CODE explains each code; without --strict the rest is published",
            )

    def copy(self) -> Account:
        """Return a copy, which further units may be added to."""
        account = Account()
        account.merge(self)
        return account

    def to_document(self) -> dict[str, Any]:
        """Return the account as a JSON document; its keys are stable.

        ``seen`` and ``used`` map units to counts. ``left_out`` and ``failed`` are lists, each entry with ``unit``,
        ``reason``, ``count``, ``bytes``, ``example`` and ``meaning``.
        """
        others = sum(entry.size_bytes for entry in self._others.values())
        seen = {unit: self._seen[unit] for unit in _UNITS if self._seen[unit]}
        if others:
            seen["bytes"] = self._seen["bytes"] + others
        return {
            "seen": seen,
            "used": {unit: self._used[unit] for unit in _UNITS if unit in seen},
            "left_out": [*map(_entry_document, self.left_out)],
            "failed": [*map(_entry_document, self.failed)],
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Account) and self.to_document() == other.to_document()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __getstate__(self) -> dict[str, Any]:
        entries = [*self._others.values()]
        return {"seen": dict(self._seen), "used": dict(self._used), "others": entries, "hidden": self.hidden}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._seen, self._used, self._others, self.hidden = Counter(), Counter(), {}, state["hidden"]
        self._seen.update(state["seen"])
        self._used.update(state["used"])
        for entry in state["others"]:
            self._add(entry)


def _entry_document(entry: AccountEntry) -> dict[str, Any]:
    return {
        "unit": entry.unit,
        "reason": entry.reason,
        "count": entry.count,
        "bytes": entry.size_bytes,
        "example": entry.example,
        "meaning": meanings()[entry.reason],
    }
