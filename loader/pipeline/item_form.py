"""The forms of item ids: which ids a stage gives to its items, so that a state with other ids is refused.

Each stage derives the form of its ids from that of its input: a reader counts positions, a generator adds ids that
begin with its key, and a stage that joins items has tuples of ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..format.documents.messages import short_repr

_MAX_POSITION = 1 << 53
_MAX_SHOWN = 4

Tag = Callable[[Any], "tuple[ItemForm, Any] | None"]
"""Checks an id that begins with the key of a stage; returns the form of its inner id, and that id.

Raises:
    ItemIdError: The id has another form.
"""


class ItemIdError(ValueError):
    """An id that no item of a stage has.

    Args:
        expected: The ids that its items have.
        found: The part of the id that has another form.

    Attributes:
        item_id: The whole id.
    """

    def __init__(self, expected: str, found: Any) -> None:
        super().__init__(f"expected {expected}, found {short_repr(found)}")
        self.item_id = found


@dataclass(frozen=True, slots=True, kw_only=True)
class FormLane:
    """The facts of a lane on which the forms of its ids depend.

    Attributes:
        number: The lane, as the stage numbers it.
        count: L, the lanes of the run.
        takes_others: A stage that joins items takes those of other lanes, where its lane ends.
    """

    number: int
    count: int
    takes_others: bool

    def numbered(self, number: int) -> FormLane:
        """Return another lane of the run."""
        return replace(self, number=number)

    def alone(self) -> FormLane:
        """Return the lane for stages that take no items of others."""
        return replace(self, takes_others=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemForm:
    """The ids of the items of a stage.

    Attributes:
        positions: Positions in ``[0, positions)`` are ids; 0 for none, None for all.
        tags: By the first part of ids that begin with the key of a stage: how they continue.
        joined: The form of the parts of ids that are tuples; None for none.
        may_be_empty: A tuple may have no parts.
        is_open: Other ids are accepted, too: those of stages that do not say which ones they make.
    """

    positions: int | None = 0
    tags: Mapping[str, Tag] = field(default_factory=dict)
    joined: ItemForm | None = None
    may_be_empty: bool = False
    is_open: bool = False

    def check_all(self, item_ids: Sequence[Any]) -> None:
        """Check ids.

        Raises:
            ItemIdError: No item of the stage has one of them.
        """
        stop = _MAX_POSITION if self.positions is None or self.is_open else self.positions
        check = self.check
        for item_id in item_ids:
            if not (type(item_id) is int and 0 <= item_id < stop):  # most ids are positions
                try:
                    check(item_id)
                except ItemIdError as error:
                    error.item_id = item_id
                    raise

    def check(self, item_id: Any) -> None:
        """Check an id, with lists or tuples.

        Raises:
            ItemIdError: No item of the stage has it.
        """
        form = self
        while True:
            kind = type(item_id)
            if kind is int:
                stop = _MAX_POSITION if form.positions is None or form.is_open else form.positions
                if not 0 <= item_id < stop:
                    raise ItemIdError(form.expected, item_id)
                return
            if kind is not list and kind is not tuple:
                raise ItemIdError(form.expected, item_id)
            if item_id and type(item_id[0]) is str and (tag := form.tags.get(item_id[0])) is not None:
                inner = tag(item_id)
                if inner is None:
                    return
                form, item_id = inner
                continue
            if form.joined is not None and (item_id or form.may_be_empty):
                check = form.joined.check
                for part in item_id:
                    check(part)
                return
            if form.is_open:
                return
            raise ItemIdError(form.expected, item_id)

    @property
    def expected(self) -> str:
        """Describe the ids, for messages."""
        found = []
        if self.positions is None:
            found.append("a position")
        elif self.positions:
            found.append(f"a position below {self.positions}")
        if self.joined is not None:
            found.append("a list of the ids of items")
        if self.tags:
            keys = [repr(key) for key in self.tags][:_MAX_SHOWN]
            found.append(f"[{' or '.join(keys)}, number, id]")
        return " or ".join(found) or "no item, since its data has none"

    def tagged(self, key: str, tag: Tag) -> ItemForm:
        """Return the form that also has ids that begin with a key."""
        return replace(self, tags={**self.tags, key: tag})


def numbered(form_of: Callable[[int], ItemForm | None]) -> Tag:
    """Return the tag of ids ``(key, number, inner id)``.

    Args:
        form_of: Returns the form of the inner ids of a number; None if no id has this number.
    """

    def check(item_id: Any) -> tuple[ItemForm, Any]:
        if len(item_id) == 3:
            number = item_id[1]
            form = form_of(number) if type(number) is int and number >= 0 else None
            if form is not None:
                return form, item_id[2]
        raise ItemIdError(f"[{item_id[0]!r}, number, id] with a number that the stage has", item_id)

    return check


OPEN_FORM = ItemForm(positions=None, is_open=True)
"""The form of the ids of a stage that does not say which ones it makes."""
