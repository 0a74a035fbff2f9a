from loader.pipeline.contract.user_state import FlexState

__all__ = ["FlexState"]
