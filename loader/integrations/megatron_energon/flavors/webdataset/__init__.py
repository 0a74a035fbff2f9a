from ...av.av_data import AVData
from ...av.av_decoder import AVDecoder
from .base_webdataset import BaseWebdatasetFactory
from .config import MAIN_FOLDER_NAME
from .default_decoder_webdataset import DefaultDecoderWebdatasetFactory
from .default_generic_webdataset import DefaultGenericWebdatasetFactory
from .empty_dataset_error import EmptyDatasetError
from .joined_webdataset import JoinedWebdatasetFactory
from .metadata import WebdatasetMeta
from .sample_decoder import SampleDecoder
from .standard_webdataset import StandardWebdatasetFactory

__all__ = [
    "MAIN_FOLDER_NAME",
    "AVData",
    "AVDecoder",
    "BaseWebdatasetFactory",
    "DefaultDecoderWebdatasetFactory",
    "DefaultGenericWebdatasetFactory",
    "EmptyDatasetError",
    "JoinedWebdatasetFactory",
    "SampleDecoder",
    "StandardWebdatasetFactory",
    "WebdatasetMeta",
]
