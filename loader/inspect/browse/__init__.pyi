# The public names of this package, each with the module that defines it.

from .catalogue import BrowseRequest as BrowseRequest, open_catalogue as open_catalogue
from .dataset import BrowsedDataset as BrowsedDataset, Row as Row
from .orders import SampleOrder as SampleOrder, ordered_samples as ordered_samples
from .page_document import mapped_document as mapped_document, sample_page as sample_page
from .page_links import PageLinks as PageLinks
from .part_types import media_type as media_type
from .search import SearchRequest as SearchRequest, search_samples as search_samples
from .thumbnails import DecodePool as DecodePool
