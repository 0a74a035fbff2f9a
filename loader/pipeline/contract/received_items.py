"""The items that a user's dataset received from its inner datasets, found by identity."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from .buffered import BufferedItem
from .item_id import ItemId, position_of


@dataclass(frozen=True, slots=True)
class _Item:
    """An item that the user's code received: number of its input and pass, id, micro-batch, and its fields then."""

    number: int
    item_id: ItemId
    batch: int | None
    fields: dict[str, Any]


class ReceivedItems:
    """The items that the user's code received and still holds, found by identity."""

    def __init__(self) -> None:
        self._items: dict[int, tuple[weakref.ref[Any], _Item]] = {}
        self.last_position = -1

    def add(self, value: Any, number: int, item_id: ItemId, batch: int | None) -> None:
        """Record an item; objects without weak references, such as plain dicts and lists, are not recorded."""
        self.last_position = position_of(item_id)
        address, items = id(value), self._items
        try:
            reference = weakref.ref(value, lambda _: items.pop(address, None))
        except TypeError:
            return
        items[address] = reference, _Item(number, item_id, batch, _fields(value))

    def find(self, value: Any) -> _Item | None:
        """Return the record of an object, unless its fields have been replaced since."""
        found = self._items.get(id(value))
        if found is None or found[0]() is not value:
            return None
        now, then = _fields(value), found[1].fields
        is_same = now.keys() == then.keys() and all(now[name] is then[name] for name in now)
        return found[1] if is_same else None

    def encode(self, value: Any) -> Any | None:
        """Return the record of an object as plain data; None for any other value."""
        found = self.find(value)
        return None if found is None else [found.number, *BufferedItem(found.item_id, found.batch).to_state()]


def _fields(value: Any) -> dict[str, Any]:
    """Return a shallow copy of an object's fields, without the restore key that stages set."""
    fields = dict(value) if isinstance(value, dict) else dict(getattr(value, "__dict__", {}))
    fields.pop("__restore_key__", None)
    return fields
