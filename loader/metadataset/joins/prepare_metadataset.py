"""Prepare all joins of a metadataset, and of the metadatasets in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from ...dataset.opening import folder_at
from ...errors import ConfigError, Fault, FormatError, StorageError
from ...format.dataset_ref import DatasetRef
from ...format.documents.providers import LoadRequest
from ...storage import resolve_path
from ..documents.leaf_plan import JoinMember, JoinPlan
from ..documents.parse import DocumentStore
from ..plans.plan_leaves import check_is_metadataset, plan_tree
from .files import JoinFiles, JoinRecord, identify_member, join_hash, open_join
from .peer_index import remove_other_peer_rows, write_peer_rows
from .prepare_join import JoinReport, prepare_join


def prepare_metadataset(
    path: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], None] | None = None,
    compat: bool | None = None,
) -> tuple[JoinReport, ...]:
    """Prepare the joins of all splits of a metadataset, and of the metadatasets in it, each next to its own file.

    Rows of earlier runs that are no longer used are removed after the new ones are written.

    Args:
        path: The metadataset.
        progress: Called for each join in turn with the number of keys matched so far, and their total number.
        compat: Write the file that megatron-energon reads, too, to ``meta.yaml.cache``, and remove its files of earlier
            states. There is one file for all split parts of the same datasets: it has the rows of the first split. By
            default, joins that such a file cannot express are skipped; if True, they are an error.

    Returns:
        A report for each join, in order; empty if there are no joins.

    Raises:
        ConfigError: A document is invalid, datasets are missing or not prepared (the error lists all of them, with the
            command to run), or the keys of a join's datasets do not match.
        StorageError: The metadataset cannot be read, the rows cannot be written, or another process prepares them.
        FormatError: The index of a dataset is damaged.
    """
    root = resolve_path(path)
    plans = plan_joins(root)
    reports: list[JoinReport] = []
    with ExitStack() as stack:
        # No other process prepares the same files.
        files = {file: JoinFiles(file) for file in sorted({plan.file for plan in plans})}
        for join_files in files.values():
            stack.enter_context(join_files.lock())
        # Prepare every join, to name the faults of all.
        errors: list[ConfigError] = []
        for plan in plans:
            try:
                reports.append(prepare_join(plan, progress=progress))
            except ConfigError as error:
                errors.append(error)
        if errors:
            raise _combined_error(root, errors)
        # Write the files that megatron-energon reads.
        if compat is not False:
            # The first of several with one name is written last.
            remove_other_peer_rows(root, [_write_peer_rows(plan, must=compat is True) for plan in reversed(plans)])
        # Remove rows of earlier runs.
        for file, join_files in files.items():
            kept = {report.name for report in reports if report.file == file}
            if file != root:  # a nested metadataset may have joins in splits that this one does not use
                kept |= {name for name in join_files.names() if _is_current(name, join_files.read_record(name))}
            join_files.remove_others(kept)
    if root not in files and (join_files := JoinFiles(root)).names():  # rows of joins that it no longer has
        with join_files.lock():
            join_files.remove_others(set())
    return tuple(reports)


prepare_recipe = prepare_metadataset
"""Name of :func:`prepare_metadataset` in version 8 of megatron-energon."""


def plan_joins(path: str | os.PathLike[str]) -> tuple[JoinPlan, ...]:
    """Return the joins of a metadataset and of the metadatasets in it; equal joins of a file come once."""
    check_is_metadataset(path)
    root = resolve_path(path)
    faults: dict[Fault, None] = {}
    joins: dict[tuple[object, ...], JoinPlan] = {}
    for split_part in DocumentStore(root).open(root).names or ("train",):  # planning reports a missing split
        try:
            # Joins do not depend on weights and repetitions, which may be invalid for training only.
            tree = plan_tree(root, split_part=split_part, training=False, check_urls=True)
        except ConfigError as error:
            faults |= dict.fromkeys(error.faults or [Fault(place="", message=error.message)])
            continue
        # Joins of the same members in one file share their rows.
        for leaf in tree.leaves():
            if leaf.join is not None:
                identities = ((member.ref, member.split_part, member.nonmatch) for member in leaf.join.members)
                joins.setdefault((leaf.join.file, *identities), leaf.join)
    if faults:
        raise ConfigError(file=root, faults=tuple(faults))
    return tuple(joins.values())


def _write_peer_rows(plan: JoinPlan, *, must: bool) -> str | None:
    folders = [folder_at(member.ref) for member in plan.members]
    written = write_peer_rows(plan, folders, open_join(plan))
    if written is None and must:
        raise ConfigError(
            "the join index of megatron-energon cannot express this join: a dataset excludes several samples, or the"
            " offsets of its samples are not known",
            at=f"{plan.file}: {plan.place}",
            hint="drop --compat: this library reads the join without it",
        )
    return written


def _combined_error(root: str, errors: Sequence[ConfigError]) -> ConfigError:
    if len(errors) == 1:
        return errors[0]
    return ConfigError(
        "\n".join(f"{error.at}: {error.message}" for error in errors),
        file=root,
        hint="\n       ".join(dict.fromkeys(error.hint for error in errors if error.hint)),
    )


def _is_current(name: str, record: JoinRecord | None) -> bool:
    if record is None:
        return False
    try:
        members = [
            JoinMember(
                request=LoadRequest(
                    ref=DatasetRef(then.path, split_config=then.split_config, meta_folder=then.meta_folder or None),
                    split_part=then.split_part,
                ),
                place="",
                name=None,
                nonmatch=then.nonmatch,
            )
            for then in record.members
        ]
        return name == join_hash([identify_member(member, folder_at(member.ref)) for member in members])
    except StorageError:
        return True  # the dataset may be unavailable for a while only
    except (ConfigError, FormatError):
        return False
