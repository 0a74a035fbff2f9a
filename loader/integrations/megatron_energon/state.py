from typing import TYPE_CHECKING, NoReturn

from loader.pipeline.contract.user_state import FlexState

from .not_served import not_served

__all__ = ["FlexState"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise not_served(__name__, name)
