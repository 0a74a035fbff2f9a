# The public names of this package, each with the module that defines it.

from .catalogue import Catalogue as Catalogue, CatalogueNode as CatalogueNode
from .dataset import (
    BrowsedDataset as BrowsedDataset,
    DatasetAddress as DatasetAddress,
    GridSample as GridSample,
    SampleOrder as SampleOrder,
    TrainingOrder as TrainingOrder,
    media_type as media_type,
    ordered_samples as ordered_samples,
    training_rows as training_rows,
)
from .page_document import mapped_document as mapped_document, sample_page as sample_page
from .page_links import PageLinks as PageLinks, page_url as page_url
from .sample_tags import tag_samples as tag_samples, tags as tags
from .search import (
    SEARCH_KINDS as SEARCH_KINDS,
    SampleFinding as SampleFinding,
    SearchKind as SearchKind,
    SearchRequest as SearchRequest,
    lint_samples as lint_samples,
    needs_scan as needs_scan,
    search_samples as search_samples,
    statistics as statistics,
)
from .tensors import describe_tensors as describe_tensors
from .thumbnails import PartAddress as PartAddress, ThumbnailPool as ThumbnailPool
from .worker_pool import WorkerPool as WorkerPool
