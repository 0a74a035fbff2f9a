"""Lint a folder of files: compare the files with their media metadata."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from ..errors import ConfigError, FormatError, StorageError
from ..format.media.extraction import BrokenMedia, FileRegion, extract_media
from ..format.media.metadata import MediaFilter, MediaMetadata, MediaMetadataReader, media_type_of_name
from ..format.media.tables import read_media_filter
from ..format.tar.names import split_member_name
from ..storage import Storage
from .contents import media_note
from .report import LintPlan, LintReport, SampleCheck, take_pictures
from .rule import Finding, LintRule, LintRules
from .running import OnProgress, RunningLint
from .shard import Shards

_BY_NAME_OR_HEADER = MediaFilter(strategy="GLOB", patterns=("*",))


def lint_media_folder(plan: LintPlan, *, on_progress: OnProgress | None = None) -> LintReport:
    """Lint the files of a folder that have media metadata; progress is reported after each file."""
    storage, check = plan.ref.storage(), plan.sample_check()
    lint = RunningLint(max_findings=plan.max_findings, on_progress=on_progress)
    try:
        # Read the recorded metadata, in the order of the names.
        with closing(MediaMetadataReader(storage)) as reader:
            known = sorted(reader, key=lambda entry: entry[0])
        recorded = read_media_filter(storage)
        # Extract as it was recorded: exact durations differ from durations in headers.
        now_filter = replace(_BY_NAME_OR_HEADER, exact=recorded is not None and recorded.exact)
        lint.media_note = media_note(sorted({name.rpartition(".")[2] for name, _ in known}), "headers", check)

        def faults(entry: tuple[str, MediaMetadata]) -> list[Finding]:
            return list(_faults(storage, *entry, check, now_filter))

        # Compare each file with its metadata.
        for done, index, findings in lint.results(faults, known):
            lint.add(*findings)
            lint.samples = done
            is_decoded = check is not None and lint.media_note is None
            lint.decoded_media += is_decoded and media_type_of_name(known[index][0]) == "av"
            lint.progress(done, len(known), "files")
    except (ConfigError, FormatError) as error:
        lint.add(Finding(MediaFolders.E601, error.message))
    lint.pictures = take_pictures(check)
    return lint.report()


def _faults(
    storage: Storage, name: str, metadata: MediaMetadata, check: SampleCheck | None, media_filter: MediaFilter
) -> Iterator[Finding]:
    try:
        if not storage.exists(name):
            yield Finding(MediaFolders.E602, "this file does not exist", shard=name)
            return
        with storage.open(name) as file:
            now = extract_media(FileRegion(file, 0, file.size_bytes), name, media_filter)
            data = file.read_at(0, file.size_bytes) if check is not None else b""
    except BrokenMedia as broken:
        yield Finding(MediaFolders.E604, str(broken), shard=name)
        return
    except StorageError as error:
        yield Finding(Shards.E109, error.message, shard=name)
        return
    # A file that differs may still decode, so both are checked.
    if now != metadata:
        yield Finding(MediaFolders.E603, _difference(metadata, now), shard=name)
    key, part = split_member_name(name) or ("", "")
    for _, message in check(key, {part: data}) if check is not None and part else ():
        yield Finding(MediaFolders.E604, message, shard=name)


def _difference(was: MediaMetadata, now: MediaMetadata | None) -> str:
    if type(was) is not type(now) or now is None:
        return "the file has another kind of media than its metadata"
    old, new = was.to_dict(), now.to_dict()
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    changes = [f"{name} is {new.get(name)}, and was {old.get(name)}" for name in names]
    return f"the file differs from its media metadata: {', '.join(changes)}"


class MediaFolders(LintRules):
    """The rules of folders of files."""

    title = "Folders of files"
    note = "`shard` is the path of the file."
    kinds = ("folders of media files",)

    E601 = LintRule(
        "the media metadata of a folder cannot be read",
        why="Sizes and durations of the files are unknown, so that code that needs them fails.",
        action="`energon prepare-media` with the folder",
        example="The media metadata is of a later version of the format, or damaged.",
    )
    E602 = LintRule(
        "a file that has media metadata is missing",
        why="Samples that reference the file fail to load.",
        action="restore it, or `energon prepare-media` again",
        example="`photos/3.png` was removed.",
    )
    E603 = LintRule(
        "a file has changed since its media metadata was collected",
        why="Batches that are planned by size or duration have other shapes than planned.",
        action="`energon prepare-media` again",
        example="`photos/3.png` was replaced by a picture of half the width.",
    )
    E604 = LintRule(
        "a file cannot be read as the media type that its name or header states",
        why="Samples that reference the file fail to load.",
        action="replace it",
        example="`photos/3.png` is the error page of a web server.",
    )
