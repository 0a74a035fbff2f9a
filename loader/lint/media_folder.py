"""Lint a folder of files: compare the files with their media metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from ..dataset.job_journal import job_journal
from ..engine.run import Engine
from ..errors import ConfigError, FormatError, StorageError
from ..format.media.extraction import BrokenMedia, FileRegion, extract_media
from ..format.media.metadata import MediaFilter, MediaMetadata, MediaMetadataReader, media_type_of_name
from ..format.media.tables import read_media_filter
from ..format.tar.names import split_member_name
from ..storage import Storage
from .contents import media_note
from .report import LintPlan, LintReport, SampleCheck, take_pictures
from .rule import Finding, LintRule, LintRules
from .running import OnProgress, RequestError, RunningLint
from .shard import Shards, unreadable
from .stored import CheckedSamples, CheckedShard

_FILES_AT_ONCE = 256  # of a task in a share or on a cluster
_BY_NAME_OR_HEADER = MediaFilter(strategy="GLOB", patterns=("*",))


def lint_media_folder(plan: LintPlan, *, on_progress: OnProgress | None = None) -> LintReport:
    """Lint the files of a folder that have media metadata; progress is reported after each file.

    Raises:
        ShareDone: The engine runs one share, which is done.
        ConfigError: Shares are missing that a merge needs.
    """
    storage, check, engine = plan.ref.storage(), plan.sample_check(), plan.runs_on
    # Worker processes would not pay; those of a cluster take several files at once.
    local = Engine() if engine.sees_this_disk and not engine.is_partial else engine
    lint = RunningLint(engine=local, max_findings=plan.max_findings, on_progress=on_progress)
    try:
        # Read the recorded metadata, in the order of the names.
        with closing(MediaMetadataReader(storage)) as reader:
            known = sorted(reader, key=lambda entry: entry[0])
        recorded = read_media_filter(storage)
        # Extract as it was recorded: exact durations differ from durations in headers.
        now_filter = replace(_BY_NAME_OR_HEADER, exact=recorded is not None and recorded.exact)
        lint.media_note = media_note(sorted({name.rpartition(".")[2] for name, _ in known}), "headers", check)
        # Compare each file with its metadata.
        decodes = check is not None and lint.media_note is None
        check_files = partial(_check_files, storage=storage, check=check, media_filter=now_filter, decodes=decodes)
        at_once = _FILES_AT_ONCE if local is engine else 1
        tasks = [known[start : start + at_once] for start in range(0, len(known), at_once)]
        stored = None
        if engine.is_partial:
            stored = _stored(lint, plan, check_files, tasks)
        for _, _, checked in lint.results(check_files, tasks, stored):
            for each in checked.samples:
                if lint.is_full:
                    lint.complete = False
                    break
                findings, pictures, media = each.unpack((MediaFolders, Shards))
                lint.add(*findings)
                lint.samples += 1
                lint.pictures += pictures
                lint.decoded_media += media
                lint.progress(lint.samples, len(known), "files")
    except RequestError as error:
        raise error.error from None
    except (ConfigError, FormatError) as error:
        lint.add(Finding(MediaFolders.E601, error.message))
    return lint.report()


_Files = Sequence[tuple[str, MediaMetadata]]


def _stored(
    lint: RunningLint, plan: LintPlan, check: Callable[[_Files], CheckedShard], tasks: Sequence[_Files]
) -> list[CheckedShard]:
    """Run a share of the files, or return what all shares have found in them."""
    options = {"level": plan.level, "limit of JSON": str(plan.max_json_bytes)}
    digest = hashlib.sha256()
    for name, metadata in (entry for task in tasks for entry in task):
        digest.update(f"{name}\0{metadata}\0".encode("utf-8", "surrogateescape"))
    return lint.stored_results(
        check,
        tasks,
        sizes=[len(task) for task in tasks],
        amounts=[len(task) for task in tasks],
        unit="files",
        journal=lambda: job_journal(plan.ref, f"lint-{plan.level}", options, CheckedShard),
        command=plan.command,
        request={**options, "media metadata": digest.hexdigest()[:16]},
    )


def _check_files(
    files: _Files, *, storage: Storage, check: SampleCheck | None, media_filter: MediaFilter, decodes: bool
) -> CheckedShard:
    """Compare files with their metadata; runs in workers.

    Args:
        decodes: The check decodes sound and video to their ends.
    """
    samples = []
    for name, metadata in files:
        findings = list(_faults(storage, name, metadata, check, media_filter))
        media = int(decodes and media_type_of_name(name) == "av")
        samples.append(CheckedSamples.pack(findings, take_pictures(check), media))
    return CheckedShard([], samples)


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
        yield unreadable(error, name)
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
