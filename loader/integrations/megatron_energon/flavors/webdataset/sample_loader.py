from typing import TYPE_CHECKING, NoReturn

from ...not_served import not_served

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise not_served(__name__, name)
