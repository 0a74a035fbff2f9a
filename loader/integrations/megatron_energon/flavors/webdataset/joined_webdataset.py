from loader.training.joined_factory import JoinedWebdatasetFactory

__all__ = ["JoinedWebdatasetFactory"]
