# The public names of this package, each with the module that defines it.

from .clients.choice import may_fork as may_fork, may_use_rust as may_use_rust, use_rust_here as use_rust_here
from .clients.connection import few_tries as few_tries
from .clients.hub.request_needs import RequestNeeds as RequestNeeds, request_needs as request_needs
from .clients.hub.revisions import (
    commit_of as commit_of,
    pin_indexed_commit as pin_indexed_commit,
    pin_present_commit as pin_present_commit,
    url_at_commit as url_at_commit,
)
from .object_url import (
    PROTOCOLS as PROTOCOLS,
    hide_query as hide_query,
    host_of as host_of,
    is_hub_url as is_hub_url,
    redact_urls as redact_urls,
    secret_fault as secret_fault,
    split_container as split_container,
)
from .options import (
    DownloadOptions as DownloadOptions,
    parse_storage_options as parse_storage_options,
    remember_options as remember_options,
    use_storage_options as use_storage_options,
)
from .remote_storage import RemoteStorage as RemoteStorage
