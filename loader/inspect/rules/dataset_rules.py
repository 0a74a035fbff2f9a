"""Rules about the files in ``.nv-meta``, the shards and the split."""

from __future__ import annotations

from .rule import Rule, RuleGroup

DATASET_RULES = RuleGroup(
    "The dataset's own files",
    "",
    (
        Rule(
            "E001",
            "Loaders read only prepared datasets: without the index they know neither the samples nor their bytes.",
            "`energon prepare`; tar files in the folder are checked without an index",
            "A folder of shards was copied without its hidden folder `.nv-meta`.",
        ),
        Rule(
            "E002",
            "No split part can be loaded.",
            "edit the file; the message lists every error with its place",
            "`split_parts` was edited by hand, and a list lost its indentation.",
        ),
        Rule(
            "E003",
            "Samples cannot be built, so that no loader opens the dataset.",
            "edit the file; the message lists every error with its place",
            "`field_map` names a field that the sample type lacks, such as `captoin`.",
        ),
        Rule(
            "W004",
            "Loaders give dicts of parts, and the training code must build samples from them with a cooker.",
            "none, if the training code builds samples from the parts; otherwise prepare with `--sample-type`",
            "The dataset was prepared with `--non-interactive` and without `--sample-type`.",
        ),
        Rule(
            "E005",
            "The positions of the samples are unknown, so that nothing can be read.",
            "prepare again with `--force-overwrite`",
            "A copy of `.nv-meta` stopped halfway, and a column of the index is truncated.",
        ),
        Rule(
            "E006",
            "megatron-energon finds samples by that file. It would read wrong bytes, or miss samples.",
            "prepare again with `--force-overwrite`; this library does not read that file",
            "Shards were added by a tool that does not update `index.sqlite`.",
        ),
        Rule(
            "E007",
            "megatron-energon and webdataset find samples by that file. They would read wrong bytes, or miss samples.",
            "prepare again with `--force-overwrite`; this library does not read that file",
            "A shard was rewritten, and its old `.tar.idx` file remained.",
        ),
        Rule(
            "W008",
            "megatron-energon cannot read the shard. This library does not need the file.",
            "prepare again with `--compat`, if other tools read the dataset",
            "The dataset was prepared with `--no-compat`.",
        ),
        Rule(
            "W009",
            "Faults in the code of the dataset, and samples that it cannot build, are not found by this check.",
            "pass that flag, if you trust the dataset",
            "`dataset.yaml` names a `sample_loader.py`, and lint ran without `--trust-code`.",
        ),
        Rule(
            "W010",
            "The files take space, and nothing reads them.",
            "`energon prepare`, which removes the files of processes that no longer run",
            "A `prepare` was killed while it wrote `.shard_0.tar.idx.4711-0123456789ab.partial`.",
        ),
    ),
)

SHARD_RULES = RuleGroup(
    "Shards",
    "",
    (
        Rule(
            "E101",
            "Every sample of the shard fails to load.",
            "restore it, or prepare again without it",
            "A shard was moved to another disk to free space.",
        ),
        Rule(
            "E102",
            "The index has the positions of other bytes. Loaders refuse the shard instead of reading wrong samples.",
            "prepare again",
            "A shard was written again with more samples after the dataset was prepared.",
        ),
        Rule(
            "W103",
            "The contents may differ from what was indexed, although the size is the same.",
            "none, if it was copied; otherwise prepare again",
            "The dataset was copied with `cp -r`, which sets new modification times.",
        ),
        Rule(
            "E104",
            "Samples after the damage are lost, and those in it have wrong bytes.",
            "copy it from its source again; see [Fix a broken dataset](../how-to/fix-a-broken-dataset.md)",
            "A download stopped, and the last sample of the shard is cut.",
        ),
        Rule(
            "E105",
            "Loaders read other bytes than those of the sample.",
            "prepare again with `--force-overwrite`",
            "A part was replaced inside of the shard by one of another size, and the size of the shard is the same.",
        ),
        Rule(
            "W106",
            "Samples are read as they should be, but other tools may read the shard in another way.",
            "none; members without an extension, which belong to no sample, need other names if they are parts",
            "The shard holds a file named `README`.",
        ),
        Rule(
            "W107",
            "No tool reads these bytes. They may be samples that are lost.",
            "none; if samples are missing, the shard was concatenated incorrectly from several",
            "`cat a.tar b.tar > c.tar` joined two archives: readers stop at the end of the first one.",
        ),
        Rule(
            "W108",
            "Nothing is lost, but an empty shard is most often the trace of a job that failed.",
            "remove it, or find the cause",
            "A worker of a job that writes shards had no input.",
        ),
        Rule(
            "E109",
            "Every sample of the shard fails to load.",
            "check permissions and the disk",
            "The shard belongs to another user and is not readable.",
        ),
    ),
)

SPLIT_RULES = RuleGroup(
    "The split",
    "",
    (
        Rule(
            "W201",
            "Its samples are never loaded.",
            "add it to `split.yaml`, or list it under `exclude`",
            "A shard was copied into the folder after the dataset was prepared.",
        ),
        Rule(
            "E202",
            "The split part cannot be loaded as it is written.",
            "correct the name; if the shard is new, prepare again",
            "A shard was renamed, and `split.yaml` has its old name.",
        ),
        Rule(
            "E203",
            "The same samples are used for training and for validation, so that the validation loss is too low.",
            "remove it from one of them; otherwise validation uses training data",
            "Two patterns of `--split-parts` match the same shard.",
        ),
        Rule(
            "W204",
            "A sample that should be excluded may be used: its name is not the one in `exclude`.",
            "correct the name",
            "`exclude` has `shard_0.tar/000O12`, with the letter O.",
        ),
        Rule(
            "W205",
            "A loader of that split part stops with an error.",
            "see [Choose the split](../how-to/choose-the-split.md)",
            "A ratio of 8,1,1 over three shards leaves none for `test`.",
        ),
        Rule(
            "E206",
            "The positions in the filter are those of other samples. Loaders refuse it.",
            "[build it again](../how-to/filter-samples.md)",
            "Shards were added to the dataset after the filter was built.",
        ),
    ),
)
