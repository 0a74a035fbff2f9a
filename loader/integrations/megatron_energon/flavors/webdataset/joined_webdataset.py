from loader.training.factories.joined_factory import JoinedWebdatasetFactory

__all__ = ["JoinedWebdatasetFactory"]
