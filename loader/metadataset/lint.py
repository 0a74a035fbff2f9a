"""Lint a metadataset: check its documents, the paths in them, and each of its datasets once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from ..dataset.opening import folder_at
from ..engine.run import Engine, ShareEnds
from ..errors import ConfigError, EnergonError, plural
from ..format.columns.column_record import column_names, read_record
from ..format.dataset_ref import DatasetRef
from ..format.documents.messages import nearest_hint
from ..lint.report import LintPlan, LintProgress, LintReport
from ..lint.rule import Finding, LintRule, LintRules
from ..lint.run import lint_dataset, lint_file
from ..lint.running import OnProgress, RunningLint
from .documents.leaf_plan import JoinMember, LeafPlan
from .documents.paths import DatasetPaths
from .joins.files import open_join
from .leaf_samples import LeafCounter, open_record_filter
from .plans.blend_tree import SAMPLES
from .plans.plan_leaves import PlannedSplits, plan_splits
from .plans.plan_node import find_repeated_leaves, find_shared_leaves


def lint_metadataset(
    plan: LintPlan,
    *,
    open_aux: Callable[[DatasetRef], object] | None = None,
    on_progress: OnProgress | None = None,
) -> LintReport:
    """Lint a metadataset, and the split parts of datasets that it uses.

    Every fault of the metadataset or a dataset is a finding; only faults of the plan raise.

    Args:
        plan: The plan of the lint. Its split parts are the splits to check; its split file and dataset file are those
            of every dataset, and override the documents.
        open_aux: Function that opens an auxiliary store; None skips these stores.
        on_progress: Called after each task.

    Raises:
        ShareDone: The engine runs one share of each dataset, which is done. Files of samples are for the merge.
    """
    planned = plan_splits(plan.ref, split_parts=plan.split_parts)
    lint = _MetadatasetLint(plan, open_aux, on_progress)
    lint.check(planned)
    lint.ends.finish()
    return lint.report()


_MAX_WITHOUT_WORKERS = {"headers": 4, "bytes": 4, "decode": 256}
"""Shards, or samples to decode, up to which a dataset is checked without workers: starting them takes longer, and a
mix may have hundreds of small datasets."""


class _MetadatasetLint(RunningLint):
    def __init__(
        self, plan: LintPlan, open_aux: Callable[[DatasetRef], object] | None, on_progress: OnProgress | None
    ) -> None:
        super().__init__(max_findings=plan.max_findings, on_progress=on_progress)
        self.datasets = 0
        self.ends = ShareEnds(plan.runs_on)
        self._plan, self._open_aux = plan, open_aux
        self._paths = DatasetPaths(check_urls=True)
        self._counter = LeafCounter()
        self._columns = cache(_columns)
        self._reported: set[object] = set()
        self._used: dict[DatasetRef, dict[str, None]] = {}  # dataset → the split parts of it that are read
        self._work: dict[DatasetRef, _Work] = {}
        self._added: set[Finding] = set()

    def check(self, planned: PlannedSplits) -> None:
        # Report the faults of the documents.
        self.complete = not planned.faults
        self.add(*(Finding(Metadatasets.E501, str(fault)) for fault in planned.faults))
        # Check the leaves of each split, and note the datasets that they use.
        for name, tree in planned.trees.items():
            for repeated in find_repeated_leaves(tree):
                self.add(Finding(Metadatasets.W503, f"split {name!r}: {repeated}"))
            for leaf in tree.leaves():
                self.add(*self._check_leaf(leaf))
            # Only datasets that exist have columns to compare units with.
            existing = {ref.path for ref in self._used}
            leaves = (leaf for leaf in tree.leaves() if leaf.datasets[0].path in existing)
            for unit in _faults_of_units(leaves, self._columns):
                self.add(Finding(Metadatasets.W508, f"split {name!r}: {unit}"))
        # Compare the splits with each other.
        self.add(*_shared_with_training(planned))
        # Lint each dataset once, with all split parts that leaves read.
        self._work = {dataset: _work(dataset, tuple(parts), self._plan.level) for dataset, parts in self._used.items()}
        for dataset, work in self._work.items():
            if self.is_full:
                self.complete = False
                if not self._plan.runs_on.merge:
                    return
            self._check_dataset(dataset, work)

    def add(self, *findings: Finding) -> None:
        """Add findings, each once: two configurations of a dataset have the same faults of shards."""
        new = [finding for finding in dict.fromkeys(findings) if finding not in self._added]
        self._added.update(new)
        super().add(*new)

    # -------------------------------------------------------------------------------------------------------- leaves

    def _check_leaf(self, leaf: LeafPlan) -> Iterator[Finding]:
        # Several leaves may reference a missing dataset, which is one finding.
        missing = [(dataset.path, self._missing(dataset)) for dataset in leaf.datasets]
        for path, fault in missing:
            if fault is not None:
                yield from self._once(("path", path), fault)
        for dataset in leaf.datasets:
            yield from self._check_stores(dataset)
        # Samples can be counted only if all datasets of the leaf exist.
        if all(fault is None for _, fault in missing):
            yield from self._check_samples(leaf)

    def _check_samples(self, leaf: LeafPlan) -> Iterator[Finding]:
        # The rows of a join are prepared.
        if leaf.join is not None:
            try:
                open_join(leaf.join)
            except EnergonError as error:
                yield Finding(Metadatasets.E505, f"{leaf.place}: {_in_one_line(error)}")
                return
        # The split part has samples, and the filter of a file is not damaged.
        try:
            self._counter.count(leaf)
            if leaf.filter is not None and leaf.ref.kind.is_file:  # those of a folder are checked with it
                open_record_filter(leaf.path, leaf.filter).check()
        except ConfigError as error:
            if not error.file:  # a fault of a file of the dataset is found with the dataset
                join_place = leaf.place if leaf.join is not None else ""
                # Leaves with the same settings have the same fault.
                about = (
                    "samples",
                    leaf.path,
                    join_place,
                    leaf.split_part,
                    leaf.ref.split_config,
                    leaf.filter,
                    leaf.request.subset,
                )
                path = "" if join_place else f"{leaf.path}: "
                yield from self._once(about, Finding(Metadatasets.E504, f"{leaf.place}: {path}{error.message}"))
        except EnergonError as error:
            if leaf.filter is not None:  # otherwise found with the dataset
                yield from self._once(
                    ("filter", leaf.path, leaf.filter),
                    Finding(Metadatasets.E504, f"{leaf.place}: {_in_one_line(error)}"),
                )

    def _missing(self, dataset: LeafPlan | JoinMember) -> Finding | None:
        try:
            fault = self._paths.fault_of_dataset(dataset.ref)
        except EnergonError as error:
            fault = error.message
        if fault is not None:
            return Finding(Metadatasets.E502, f"{dataset.place}.path: {fault}")
        ref = dataset.ref
        # A reference that names the default documents means the same dataset as one that names none.
        used = replace(ref, split_config=ref.split_file, dataset_config=ref.dataset_file)
        self._used.setdefault(used, {})[dataset.split_part] = None
        return None

    def _check_stores(self, dataset: LeafPlan | JoinMember) -> Iterator[Finding]:
        for name, ref in dataset.request.aux.items():
            if self._open_aux is None or ("store", ref) in self._reported:
                continue
            self._reported.add(("store", ref))
            try:
                self._open_aux(ref)
            except EnergonError as error:
                yield Finding(Metadatasets.E506, f"{dataset.place}.aux.{name}: {ref.path}: {_in_one_line(error)}")

    def _once(self, about: object, finding: Finding) -> Iterator[Finding]:
        if about not in self._reported:
            self._reported.add(about)
            yield finding

    # ---------------------------------------------------------------------------------------------------- datasets

    def _check_dataset(self, ref: DatasetRef, work: _Work) -> None:
        plan = self._plan

        # Report a share of the work on all datasets.
        def progress(now: LintProgress) -> None:
            work.done = work.total * now.done / now.total
            done = round(sum(each.done for each in self._work.values()))
            total = sum(each.total for each in self._work.values())
            self.progress(done, total, "samples" if plan.level == "decode" else "shards")

        # Lint the split parts in use; the limit of findings holds for the whole metadataset.
        engine, is_file = plan.runs_on, ref.kind.is_file
        if engine.is_partial and is_file:
            if engine.share is not None or self.is_full:
                return
            engine = Engine()  # a file has no folder for stored results
        elif not engine.is_partial and work.total <= _MAX_WITHOUT_WORKERS.get(plan.level, 0):
            engine = Engine()
        dataset_plan = replace(
            plan,
            ref=ref,
            engine=engine,
            split_parts=work.split_parts,
            max_findings=None if plan.max_findings is None else plan.max_findings - len(self.findings),
        )
        lint = lint_file if is_file else lint_dataset
        was_full = self.is_full  # then a merge only takes the results, whose journal is removed with the others
        report = self.ends.call(lambda: lint(dataset_plan, on_progress=progress))
        if report is None or was_full:
            return
        work.done = work.total
        # Add the result to the totals.
        self.complete &= report.complete
        self.datasets += 1
        self.shards += report.shards
        self.samples += report.samples
        self.pictures += report.pictures
        self.decoded_media += report.decoded_media
        self.media_note = self.media_note or report.media_note
        self.add(*(replace(finding, dataset=ref.path) for finding in report.findings))


def _shared_with_training(planned: PlannedSplits) -> Iterator[Finding]:
    training = [name for name in planned.trees if name.startswith("train")]
    for name, other in product(training, planned.trees):
        if other not in training:
            for message in find_shared_leaves(planned.trees[name], planned.trees[other]):
                yield Finding(Metadatasets.W507, f"splits {name!r} and {other!r}: {message}")


def _in_one_line(error: EnergonError) -> str:
    message = error.message.replace("\n", "; ")
    return f"{message}; {error.hint}" if error.hint else message


@dataclass(slots=True, kw_only=True)
class _Work:
    """The part of a dataset to check, and its progress in shards or samples."""

    split_parts: tuple[str, ...] | None  # those in use that the dataset has; None for all
    total: int
    done: float = 0.0


def _work(ref: DatasetRef, parts: tuple[str, ...], level: str) -> _Work:
    if ref.kind.is_file:
        return _Work(split_parts=None, total=1)
    try:
        folder = folder_at(ref)
        split = folder.documents.split.split_parts if folder.documents.split else {}
    except EnergonError:
        return _Work(split_parts=None, total=1)  # its lint reports the fault
    # Split parts that the dataset lacks are faults of their leaves.
    known = tuple(part for part in dict.fromkeys(map(folder.documents.loaded_part, parts)) if part in split)
    counts = [folder.shard_counts.get(shard, 0) for part in known for shard in split[part]]
    return _Work(split_parts=known, total=sum(counts) if level == "decode" else len(counts))


_MAX_NAMED = 3  # datasets, in a message


def _faults_of_units(
    leaves: Iterable[LeafPlan], columns_of: Callable[[DatasetRef], tuple[str, ...] | None]
) -> Iterator[str]:
    """Describe units of blends that are probably misspelt, no column of some datasets, or a column without numbers.

    A unit that is not a column of any dataset, nor similar to one, is a metric of the task encoder.
    """
    # Collect the datasets below each unit.
    below: dict[str, dict[DatasetRef, None]] = {}
    for leaf in leaves:
        dataset = leaf.datasets[0]
        for unit in dict.fromkeys(step.unit for step in leaf.blends if step.unit != SAMPLES):
            below.setdefault(unit, {})[replace(dataset.ref, split_config=None, dataset_config=None)] = None
    # Compare each unit with the columns of these datasets.
    for unit, datasets in below.items():
        known = {dataset: names for dataset in datasets if (names := columns_of(dataset)) is not None}
        columns = [*known.values()]
        lacking = [ref.path for ref, names in known.items() if unit not in names]
        if len(lacking) < len(columns) and lacking:
            yield (
                f"weights are shares of {unit!r}, a column that {len(lacking)} of"
                f" {plural(len(columns), 'dataset does', 'datasets do')} not have: {_shown(lacking)}"
            )
        elif lacking and (hint := nearest_hint(unit, {SAMPLES, *(name for names in columns for name in names)})):
            yield f"weights are shares of {unit!r}, which is not a column of the datasets{hint}"
        # Vectors and texts have no sum.
        for kind in ("vectors", "texts"):
            unfit = [ref.path for ref, names in known.items() if unit in names and _kind(ref, unit) == kind]
            if unfit:
                where = f"{len(unfit)} of {plural(len(columns), 'dataset')}: {_shown(unfit)}"
                yield f"weights are shares of {unit!r}, a column of {kind} in {where}"


def _shown(paths: Sequence[str]) -> str:
    return ", ".join(paths[:_MAX_NAMED]) + (", …" if len(paths) > _MAX_NAMED else "")


def _kind(ref: DatasetRef, column: str) -> str:
    """Return the kind of a column's values; an empty text for a damaged record, which is found with the dataset."""
    try:
        return read_record(folder_at(ref).storage, column).kind
    except EnergonError:
        return ""


def _columns(ref: DatasetRef) -> tuple[str, ...] | None:
    """Return the columns of a dataset; files have none. None if it cannot be opened."""
    if ref.kind.is_file:
        return ()
    try:
        return tuple(column_names(folder_at(ref).storage))
    except EnergonError:
        return None


class Metadatasets(LintRules):
    """The rules of metadatasets."""

    title = "Metadatasets"
    note = (
        "The message starts with the place in the document, `splits.train.blend[2].path`. For a nested "
        "document, it starts with the file."
    )
    kinds = ("metadatasets",)

    E501 = LintRule(
        "a metadataset is invalid",
        why="No loader opens the document.",
        action="correct it; only then are the datasets of its splits checked",
        example="`weigth: 2` instead of `weight: 2`.",
    )
    E502 = LintRule(
        "a dataset of a metadataset is missing or not prepared",
        why="No loader opens the split that references it.",
        action="correct the path, or prepare that dataset",
        example="A path is relative to the document, and the document was moved.",
    )
    W503 = LintRule(
        "a metadataset reaches the same samples twice",
        why="These samples count twice, so that the mix is another one than the weights state.",
        action="remove one reference, or use subsets that do not overlap; none, if both should count",
        example="A nested metadataset contains a dataset that the outer one also lists.",
    )
    E504 = LintRule(
        "a dataset of a metadataset has no samples to read, or lacks the requested split part",
        why="The blend would wait for a sample that never comes, so loaders refuse it.",
        action="correct `split_part` or `subset`",
        example="`split_part: val` of a dataset that was prepared with `--split-ratio 1,0,0`.",
    )
    E505 = LintRule(
        "a join is not prepared, or its datasets have changed since",
        why="The rows of the join name other samples, or unknown ones.",
        action="`energon prepare` with the metadataset that contains the join",
        example="A member of the join was prepared again with more shards.",
    )
    E506 = LintRule(
        "an auxiliary store cannot be opened",
        why="Cookers that read from the store fail for every sample.",
        action="correct its path; for a folder of plain files, write `filesystem://` and its path",
        example="`aux: {images: ../images}` names a folder of plain files.",
    )
    W507 = LintRule(
        "a training split and another split share samples",
        why="The validation loss is too low, since the model has seen these samples.",
        action="correct `split_part` or `subset`; none, if you evaluate the model on training data",
        example="`splits.val` lists a dataset with `split_part: train`.",
    )
    W508 = LintRule(
        "the unit of a blend is misspelt, or no column of numbers of some of its datasets",
        why="Loaders refuse the blend, unless the task encoder has a metric of this name.",
        action="correct `blend_weight_unit`, or write the column; none, if the task encoder has a metric of this name",
        example="`blend_weight_unit: tokns`, where the datasets have a column `tokens`.",
    )
