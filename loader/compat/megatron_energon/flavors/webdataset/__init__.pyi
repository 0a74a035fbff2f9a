# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.
from loader import BaseWebdatasetFactory as BaseWebdatasetFactory
from loader import DefaultDecoderWebdatasetFactory as DefaultDecoderWebdatasetFactory
from loader import DefaultGenericWebdatasetFactory as DefaultGenericWebdatasetFactory
from loader import EmptyDatasetError as EmptyDatasetError
from loader import JoinedWebdatasetFactory as JoinedWebdatasetFactory
from loader import SampleDecoder as SampleDecoder
from loader import StandardWebdatasetFactory as StandardWebdatasetFactory
from loader.av.av_data import AVData as AVData
from loader.av.av_decoder import AVDecoder as AVDecoder
from loader.compat.webdataset_factory import WebdatasetMeta as WebdatasetMeta
from loader.format.nv_meta import FOLDER as _FOLDER
MAIN_FOLDER_NAME = _FOLDER
