from loader.pipeline.contract.savable import Savable
from loader.pipeline.contract.user_state import FlexState

__all__ = ["FlexState", "Savable"]
