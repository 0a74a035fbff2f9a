from loader.pipeline.contract.user_state import FlexState, Savable

__all__ = ["FlexState", "Savable"]
