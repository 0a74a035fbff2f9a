"""The closed list of reasons for which a command leaves out a part of its input, or fails on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason; its texts are Markdown of ``docs/reference/findings.md``.

    Attributes:
        code: ``L`` and a number for what is left out, ``F`` and a number for what failed.
        meaning: What the units are, in one line.
        why: Why they are not used.
        action: Instruction that gets them in, or makes the message go away.
        example: A case in which it occurs.
    """

    code: str
    meaning: str
    why: str
    action: str
    example: str

    @property
    def fate(self) -> Literal["left_out", "failed"]:
        """``left_out`` or ``failed``."""
        return "left_out" if self.code.startswith("L") else "failed"


_LIST = (
    Reason(
        "L101",
        "a file without an extension",
        "The extension names the part of a sample, so a file without one has no place in a sample.",
        "Rename the file, or leave it out",
        "A folder of pictures with a file `photo`.",
    ),
    Reason(
        "L102",
        "a file about the data, not of it",
        "Cards, licences, scripts and figures of a data repository describe the data and are no samples.",
        "Nothing; to import such files, name their folder and `--from folder`",
        "`README.md` and `.gitattributes` next to `data/*.parquet`.",
    ),
    Reason(
        "L103",
        "a table or an archive next to other files",
        "A table holds rows and an archive holds files, so neither is a part of a sample.",
        "Import it by its own path",
        "`labels.parquet` in a folder of pictures.",
    ),
    Reason(
        "L104",
        "a link that cannot be followed",
        "The target of the link is missing, or is a folder that contains the link.",
        "Replace the link by the file",
        "A link to a picture that was moved.",
    ),
    Reason(
        "L105",
        "a link, or no file",
        "Devices, pipes and sockets have no contents, and neither have links in an archive to what is not in it.",
        "Pack the archive again with `tar --dereference --hard-dereference`",
        "A symbolic link in a tar to a file outside it.",
    ),
    Reason(
        "L106",
        "a member that a later one of the same name replaces",
        "Unpacking an archive keeps the last file of a name.",
        "Give the members different names",
        "`a.jpg` twice in a tar that was appended to.",
    ),
    Reason(
        "L107",
        "a member without a part name",
        "A member `key.part` is a part of a sample; names without a dot, and in a folder `__x__`, name none.",
        "Add an extension to the names",
        "`x/README` in a tar.",
    ),
    Reason(
        "L108",
        "a file of the system",
        "macOS and Windows leave such files next to the data: resource forks, thumbnails, folder settings.",
        "Nothing; the data is complete without them",
        "`._photo.jpg`, `__MACOSX/`, `Thumbs.db`.",
    ),
    Reason(
        "L109",
        "a folder that cannot be read",
        "The system refuses to list it, or it vanished while the command ran.",
        "Give yourself the permission to read it, and run the command again",
        "A folder of another user.",
    ),
    Reason(
        "L110",
        "an empty file",
        "It has no contents: the copy or the download that made it has probably failed.",
        "Copy it again",
        "A tar of 0 bytes.",
    ),
    Reason(
        "L111",
        "a picture that the annotations do not name",
        "The source is the annotation file, and each of its entries names its picture.",
        "Import the folder itself to get all its pictures",
        "2,000 pictures in a folder, and 1,500 in `instances.json`.",
    ),
    Reason(
        "L112",
        "a row whose key no sample has",
        "Added parts belong to samples of a dataset, which they find by key.",
        "Compare the keys; `energon info --json` and `energon preview` show those of the dataset",
        "Captions of 1,000 pictures, and the dataset holds 900 of them.",
    ),
    Reason(
        "L113",
        "a sample with none of the chosen parts",
        "The options choose parts by name, and this sample has no such part.",
        "Widen `--parts`, or drop fewer parts",
        "`--parts txt` on a dataset in which some pictures have no caption.",
    ),
    Reason(
        "L114",
        "a sample of a dataset that lacks what the condition names",
        "A condition on a column or a split part cannot hold in a dataset without it.",
        "Write the column for this dataset, too: `energon stats --write`",
        "`--where 'tokens > 10'` on two datasets, and only the first has the column.",
    ),
    Reason(
        "L115",
        "values of a dataset that are not carried",
        "A merged dataset has the columns and filters that all inputs have; media metadata is collected again.",
        "Write the missing values for the other inputs, or collect them again in the result",
        "A column `tokens` of one of two datasets.",
    ),
    Reason(
        "L116",
        "a compressed shard",
        "Samples cannot be read from the middle of a compressed file.",
        "Decompress the shards: `energon prepare PATH --decompress`",
        "`shard_000.tar.gz` next to `shard_001.tar`.",
    ),
    Reason(
        "L117",
        "a file next to the shards",
        "A dataset is made of its shards; other files in their folder are no samples.",
        "Nothing if it is about the data; import it if it holds data",
        "`captions.json` in a folder of tars.",
    ),
    Reason(
        "L118",
        "an object whose name no reader can use",
        "Names with an empty part, `.` or `..` name no file below a folder.",
        "Copy the object to a name without such parts",
        "`s3://bucket/ds//s_0.tar`.",
    ),
    Reason(
        "L119",
        "a file that no row names",
        "The samples are the rows of a table such as `metadata.jsonl`, and each row names its files.",
        "Add rows for the files, or import the folder without the table",
        "`0003.jpg` next to a `metadata.csv` that ends with `0002.jpg`.",
    ),
    Reason(
        "L120",
        "a row without a picture or another file",
        "The columns of pictures, sounds, videos or other files are empty in this row, or the row has no value at all.",
        "Pass `--keep-text-only` to write the other columns as a sample",
        "A caption whose `image` is null.",
    ),
    Reason(
        "L121",
        "a member whose name leads out of a folder",
        "Unpacking a tar with absolute names, or with `..` in them, can write to any folder; this toolkit makes none.",
        "Give the samples other keys in the source",
        "`../../etc/cron.d/x.txt` in a tar.",
    ),
    Reason(
        "L122",
        "a link to a file outside of the folder",
        "A folder from another user can link to any file of yours, which would then be in the dataset.",
        "Pass `--follow-links` if you know where the links lead",
        "`notes.txt`, a link to `~/.ssh/id_rsa`.",
    ),
    Reason(
        "F101",
        "a row that cannot be read or written",
        "A value of the row is missing, damaged or of an unexpected form; the message names it.",
        "Fix the row and run the command again: finished shards are kept",
        "A row whose picture is not decodable while `--verify` is given.",
    ),
    Reason(
        "F102",
        "a row whose file is missing",
        "The row names a file that does not exist, or may not be read.",
        "Check the name, or the folder that names start from (`--root`)",
        "`images/0001.jpg` in a table, and the folder is called `image`.",
    ),
    Reason(
        "F103",
        "a row with an empty file",
        "A picture, sound, video or JSON document of 0 bytes cannot be decoded; the copy that made it has probably"
        " failed. A text may be empty.",
        "Copy the file again, and run the command again",
        "`0001.jpg` of 0 bytes.",
    ),
    Reason(
        "F104",
        "a row with a placeholder instead of its file",
        "A pointer of Git LFS represents a file that was not fetched, and a page for one that a server refused.",
        "Fetch the files (`git lfs pull`), or download them again",
        "`photo.jpg` that begins with `version https://git-lfs.github.com`.",
    ),
    Reason(
        "F105",
        "a row whose file is outside of the folder of the table",
        "A table from another user can name any file of yours, which would then be in the dataset. What counts is"
        " where a path leads to, after `..` and links.",
        "Name the folder of the files with `--root`, or allow any file with `--allow-outside`",
        "`../../etc/passwd` in a column of pictures.",
    ),
    Reason(
        "F106",
        "a row with a URL that is not fetched",
        "A table of another author can name any server, so that files are only fetched if you allow it.",
        "Pass `--download`",
        "`https://example.org/a.jpg` in a column of paths, while `--keep-urls` is given.",
    ),
    Reason(
        "F107",
        "a row with a URL that leads to a private address",
        "A table, or a server that redirects, could otherwise read what only your network may. Names are resolved"
        " first. Link-local and reserved addresses are refused in any case, and so are redirects from a public address"
        " to a private one.",
        "Pass `--allow-private` if the table names servers of your own",
        "`http://192.168.0.1/config` in a column of pictures.",
    ),
    Reason(
        "F108",
        "a row whose file cannot be fetched",
        "The server refuses it, sends more than `--max-size` or too little in time, or breaks the connection; the"
        " message has the cause. Few tries are made.",
        "Run the command again: finished shards are kept",
        "A picture on a server that answers `403 Forbidden`.",
    ),
    Reason(
        "F109",
        "a row that was not tried, since its host was given up",
        "Three requests had no answer from a host that never gave one, or twelve in a row failed, so that more would"
        " take time for nothing.",
        "Check the network, and run the command again when the host is back",
        "4,000 pictures on a server that is no more.",
    ),
    Reason(
        "F110",
        "a row whose file unpacks to very much more than its size",
        "A member of a zip is larger than 32 MiB, and than 200 times its compressed bytes: a few bytes could fill the"
        " memory.",
        "If it is right, unpack the zip and import the folder, or set `ENERGON_MAX_UNPACKING_RATIO`",
        "A zip of 2 MB with a text of 2 GB.",
    ),
)

REASONS: Mapping[str, Reason] = {reason.code: reason for reason in _LIST}
"""Code → reason."""
