"""Rules about JSONL, token and Parquet files, and folders of media files."""

from __future__ import annotations

from .rule import Rule, RuleGroup

JSONL_RULES = RuleGroup(
    "JSONL files",
    "`shard` is the name of the file, and `offset` that of the line.",
    (
        Rule(
            "E401",
            "The positions of the lines are unknown, so that no loader opens the file.",
            "`energon prepare` with the file",
            "The file was copied without its `.idx` file.",
        ),
        Rule(
            "E402",
            "Loaders would read wrong lines, or none.",
            "`energon prepare` with the file; until then wrong lines, or none, are read",
            "Lines were appended after the file was prepared.",
        ),
        Rule(
            "E403",
            "The sample fails to load. Training logs an error and skips it.",
            "correct or remove it; JSON over several lines: `jq -c .` converts it",
            "A JSON document was written with indents, over several lines.",
        ),
        Rule(
            "E404",
            "The sample fails to load. Training logs an error and skips it.",
            "convert the file: `iconv -f LATIN1 -t UTF-8`",
            "A file of an old Windows program has the byte E9 for é.",
        ),
        Rule(
            "W405",
            "Nothing is lost, but the number of samples is smaller than the number of lines.",
            "none: they are not samples",
            "The file ends with two line breaks.",
        ),
        Rule(
            "W406",
            "Nothing is lost here, but other tools refuse the first line.",
            "none here; remove it if other tools read the file",
            "An editor on Windows saved the file as UTF-8 with BOM.",
        ),
        Rule(
            "E407",
            "A loader of the file stops with an error.",
            "find the cause, or remove the file from the metadataset",
            "A filter removed every line.",
        ),
    ),
)

RECORD_RULES = RuleGroup(
    "Token files and Parquet files",
    "`shard` is the name of the file.",
    (
        Rule(
            "E411",
            "The positions of the sequences are unknown, so that no loader opens the file.",
            "copy both files of the pair again",
            "The `.idx` file is that of another program, or truncated.",
        ),
        Rule(
            "E412",
            "The sequence would have tokens that are not in the file.",
            "copy both files of the pair again: one is truncated, or they do not belong together",
            "The copy of the `.bin` file stopped halfway.",
        ),
        Rule(
            "W413",
            "These tokens are never loaded.",
            "check that the `.idx` file is not of an earlier `.bin` file",
            "Tokens were appended to the `.bin` file, and the `.idx` file is the old one.",
        ),
        Rule(
            "E414",
            "Rows of the file fail to load, or all do.",
            "copy or write it again",
            "A download stopped before the footer of the file.",
        ),
        Rule(
            "W415",
            "Shuffled reading decodes the row group many times, so that loading is slow.",
            "write smaller row groups: shuffled reading decodes this one many times",
            "The file was written with one row group of 4 GB.",
        ),
        Rule(
            "E416",
            "A loader of the file stops with an error.",
            "find the cause, or remove the file from the metadataset",
            "A filter removed every row.",
        ),
    ),
)

FOLDER_RULES = RuleGroup(
    "Folders of files",
    "`shard` is the path of the file.",
    (
        Rule(
            "E601",
            "Sizes and durations of the files are unknown, so that code that needs them fails.",
            "`energon prepare-media` with the folder",
            "The media metadata is of a later version of the format, or damaged.",
        ),
        Rule(
            "E602",
            "Samples that reference the file fail to load.",
            "restore it, or `energon prepare-media` again",
            "`photos/3.png` was removed.",
        ),
        Rule(
            "E603",
            "Batches that are planned by size or duration have other shapes than planned.",
            "`energon prepare-media` again",
            "`photos/3.png` was replaced by a picture of half the width.",
        ),
        Rule(
            "E604",
            "Samples that reference the file fail to load.",
            "replace it",
            "`photos/3.png` is the error page of a web server.",
        ),
    ),
)
