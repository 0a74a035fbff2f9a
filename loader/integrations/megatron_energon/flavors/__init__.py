from ..av.av_data import AVData
from ..av.av_decoder import AVDecoder
from .base_dataset import BaseCoreDatasetFactory, PinMemoryMixin, Sample, SavableDataset
from .binidx import BinIdxDatasetFactory, BinIdxFileStore, DefaultBinIdxDatasetFactory
from .captioning import CaptioningSample, CaptioningWebdataset
from .crude import CrudeSample, CrudeWebdataset
from .image import ImageSample, ImageWebdataset
from .image_classification import ImageClassificationSample, ImageClassificationWebdataset
from .interleaved import InterleavedSample, InterleavedWebdataset
from .jsonl.crude_jsonl_dataset import CrudeJsonlDatasetFactory, DefaultCrudeJsonlDatasetFactory
from .multichoice_vqa import MultiChoiceVQASample, MultiChoiceVQAWebdataset
from .ocr import OCRSample, OCRWebdataset
from .similarity_interleaved import SimilarityInterleavedSample, SimilarityInterleavedWebdataset
from .text import TextSample, TextWebdataset
from .vid_qa import VidQASample, VidQAWebdataset
from .vqa import VQASample, VQAWebdataset
from .vqa_and_ocr import VQAOCRWebdataset
from .webdataset.base_webdataset import BaseWebdatasetFactory
from .webdataset.default_decoder_webdataset import DefaultDecoderWebdatasetFactory
from .webdataset.default_generic_webdataset import DefaultGenericWebdatasetFactory
from .webdataset.empty_dataset_error import EmptyDatasetError
from .webdataset.joined_webdataset import JoinedWebdatasetFactory
from .webdataset.metadata import WebdatasetMeta
from .webdataset.sample_decoder import SampleDecoder
from .webdataset.standard_webdataset import StandardWebdatasetFactory

__all__ = [
    "AVData",
    "AVDecoder",
    "BaseCoreDatasetFactory",
    "BaseWebdatasetFactory",
    "BinIdxDatasetFactory",
    "BinIdxFileStore",
    "CaptioningSample",
    "CaptioningWebdataset",
    "CrudeJsonlDatasetFactory",
    "CrudeSample",
    "CrudeWebdataset",
    "DefaultBinIdxDatasetFactory",
    "DefaultCrudeJsonlDatasetFactory",
    "DefaultDecoderWebdatasetFactory",
    "DefaultGenericWebdatasetFactory",
    "EmptyDatasetError",
    "ImageClassificationSample",
    "ImageClassificationWebdataset",
    "ImageSample",
    "ImageWebdataset",
    "InterleavedSample",
    "InterleavedWebdataset",
    "JoinedWebdatasetFactory",
    "MultiChoiceVQASample",
    "MultiChoiceVQAWebdataset",
    "OCRSample",
    "OCRWebdataset",
    "PinMemoryMixin",
    "Sample",
    "SampleDecoder",
    "SavableDataset",
    "SimilarityInterleavedSample",
    "SimilarityInterleavedWebdataset",
    "StandardWebdatasetFactory",
    "TextSample",
    "TextWebdataset",
    "VQAOCRWebdataset",
    "VQASample",
    "VQAWebdataset",
    "VidQASample",
    "VidQAWebdataset",
    "WebdatasetMeta",
]
