# The public names of this package, each with the module that defines it.

from .epath import EPath as EPath
from .hub_folder import HubFolder as HubFolder, UnnamedLicenseError as UnnamedLicenseError
from .local import LocalStorage as LocalStorage
from .memory_map import map_file as map_file, map_memory as map_memory
from .on_disk import (
    check_target as check_target,
    flush_files as flush_files,
    is_writable as is_writable,
    lists_files as lists_files,
    rename_file as rename_file,
)
from .protocol import (
    ClosesOnExit as ClosesOnExit,
    FileInfo as FileInfo,
    FilesAhead as FilesAhead,
    PendingRead as PendingRead,
    ReadableFile as ReadableFile,
    Storage as Storage,
    StoredFile as StoredFile,
    list_once as list_once,
    max_document_bytes as max_document_bytes,
    raise_storage_error as raise_storage_error,
    read_document as read_document,
)
from .remote import (
    DownloadOptions as DownloadOptions,
    RemoteStorage as RemoteStorage,
    RequestNeeds as RequestNeeds,
    commit_of as commit_of,
    few_tries as few_tries,
    is_hub_url as is_hub_url,
    may_fork as may_fork,
    may_use_rust as may_use_rust,
    pin_indexed_commit as pin_indexed_commit,
    pin_present_commit as pin_present_commit,
    remember_options as remember_options,
    request_needs as request_needs,
    url_at_commit as url_at_commit,
    use_rust_here as use_rust_here,
)
from .remote_path import AscendingFile as AscendingFile, FileStream as FileStream
from .temporary_files import (
    COMMAND_FILE as COMMAND_FILE,
    left_command as left_command,
    partials_of as partials_of,
    process_of_partial as process_of_partial,
    size_of as size_of,
    temporary_name as temporary_name,
)
from .urls import (
    SplitStorage as SplitStorage,
    hint_of_missing as hint_of_missing,
    is_url as is_url,
    missing_folder as missing_folder,
    open_parent as open_parent,
    open_storage as open_storage,
    resolve_path as resolve_path,
    short_path as short_path,
    split_url as split_url,
)
