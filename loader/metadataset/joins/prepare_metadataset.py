"""All joins of a metadataset, and of those that it names, prepared for loading."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack

from ...errors import ConfigError, Fault, FormatError, StorageError
from ...format.documents.load_request import LoadRequest, is_metadataset, resolve_path
from ..documents.leaf_plan import JoinMember, JoinPlan, Nonmatch
from ..documents.parse import DocumentStore
from ..plans.plan_leaves import plan_tree
from .files import JoinFiles, JoinRecord, identify_member, join_hash, open_member
from .prepare_join import JoinReport, prepare_join

__all__ = ["plan_joins", "prepare_metadataset"]


def prepare_metadataset(
    path: str | os.PathLike[str], *, progress: Callable[[int, int], None] | None = None
) -> tuple[JoinReport, ...]:
    """Prepare the joins of all splits of a metadataset, and of those that it names, each beside its own file.

    Rows of earlier preparations that nothing needs any more are removed once the new ones are there.

    Args:
        path: The metadataset.
        progress: Is told of each join in turn how many of its keys were looked for, and of how many.

    Returns:
        What was prepared, in order; nothing where there are no joins.

    Raises:
        ConfigError: A document says something wrong, datasets are not there or not prepared (all of them are listed,
            with what to run), or datasets of a join do not fit each other.
        StorageError: The metadataset cannot be read, the rows cannot be written, or another process prepares them.
        FormatError: The index of a dataset is damaged.
    """
    root = resolve_path(os.fspath(path), os.getcwd())
    plans = plan_joins(root)
    reports: list[JoinReport] = []
    with ExitStack() as stack:
        files = {file: JoinFiles(file) for file in sorted({plan.file for plan in plans})}
        for own in files.values():
            stack.enter_context(own.lock())
        errors: list[ConfigError] = []
        for plan in plans:
            try:
                reports.append(prepare_join(plan, progress=progress))
            except ConfigError as error:
                errors.append(error)
        if errors:
            raise _together(root, errors)
        for file, own in files.items():
            new = {report.name for report in reports if report.file == file}
            # Of another metadataset only the joins of some splits may be needed here.
            own.remove_others(new if file == root else new | set(_still_true(own)))
    if root not in files:
        _remove_all(JoinFiles(root))
    return tuple(reports)


def plan_joins(path: str | os.PathLike[str]) -> tuple[JoinPlan, ...]:
    """Give the joins of all splits of a metadataset and of those that it names, equal ones of one file once.

    Raises:
        ConfigError: It is no metadataset, a document says something wrong, or datasets are not there or not prepared.
        StorageError: It cannot be read.
    """
    if not is_metadataset(path):
        found = "this is no metadataset; expected a file that ends in .yaml or .yml"
        raise ConfigError(found, file=os.fspath(path), hint="give the path of a metadataset")
    root = resolve_path(os.fspath(path), os.getcwd())
    faults: dict[Fault, None] = {}
    joins: dict[tuple[object, ...], JoinPlan] = {}
    for split_part in DocumentStore(root).open(root).names or ("train",):  # where there is none, planning says so
        try:
            # What amounts come to does not matter to joins, and may be wrong for training only.
            tree = plan_tree(root, split_part=split_part, training=False)
        except ConfigError as error:
            faults |= dict.fromkeys(error.faults)
            continue
        for leaf in tree.leaves():
            if leaf.join is not None:
                joins.setdefault((leaf.join.file, *map(_counted, leaf.join.members)), leaf.join)
    if faults:
        raise ConfigError(file=root, faults=tuple(faults))
    return tuple(joins.values())


def _counted(member: JoinMember) -> tuple[object, ...]:
    return member.path, member.split_part, member.split_config, member.nonmatch


def _together(root: str, errors: Sequence[ConfigError]) -> ConfigError:
    if len(errors) == 1:
        return errors[0]
    return ConfigError(
        "\n".join(f"{error.at}: {error.message}" for error in errors),
        file=root,
        hint="\n       ".join(dict.fromkeys(error.hint for error in errors if error.hint)),
    )


def _remove_all(files: JoinFiles) -> None:
    """Remove the rows of joins that a metadataset had once."""
    if files.names():
        with files.lock():
            files.remove_others(set())


def _still_true(files: JoinFiles) -> Iterator[str]:
    """Give the names of rows whose datasets have not changed since."""
    for name in files.names():
        record = files.read_record(name)
        if record is not None and _is_true(name, record):
            yield name


def _is_true(name: str, record: JoinRecord) -> bool:
    try:
        members = [
            JoinMember(
                request=LoadRequest(path=then.path, split_part=then.split_part, split_config=then.split_config),
                place="",
                name=None,
                nonmatch=_NONMATCH[then.nonmatch],
            )
            for then in record.members
        ]
        return name == join_hash([identify_member(member, open_member(member)) for member in members])
    except StorageError:
        return True  # a dataset that is out of reach for a while
    except (ConfigError, FormatError, KeyError):
        return False


_NONMATCH: Mapping[str, Nonmatch] = {"error": "error", "skip": "skip", "none": "none"}
