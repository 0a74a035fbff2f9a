"""What ``energon lint`` can find, and the codes under which the documentation explains it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CODES", "Finding"]

CODES: dict[str, str] = {
    # The dataset's own files
    "E001": "the dataset is not prepared, or .info.json is damaged",
    "E002": "split.yaml is missing or says something wrong",
    "E003": "dataset.yaml says something wrong",
    "W004": "there is no dataset.yaml: samples are crude",
    "E005": "the index is missing or damaged",
    "E006": "index.sqlite disagrees with the dataset: other tools will fail or read wrong bytes",
    "E007": "a .tar.idx file disagrees with its shard: other tools will fail or read wrong bytes",
    "W008": "a .tar.idx file is missing: other tools need it",
    "W009": "samples are not made: that takes code which may not run without --trust-code",
    # Shards
    "E101": "a shard is missing",
    "E102": "a shard's size is not what it was when indexed: the index is stale",
    "W103": "a shard's time of change is not what it was when indexed",
    "E104": "a shard is damaged or cut",
    "E105": "the index disagrees with the shard's headers",
    "W106": "a shard is odd in a harmless way",
    "W107": "there are bytes behind the end of the archive",
    "W108": "a shard holds no samples",
    "E109": "a shard cannot be read",
    # The split
    "W201": "a shard is on disk, but in no split part",
    "E202": "the split names a shard that is not in the dataset",
    "E203": "a shard is in two split parts",
    "W204": "the split excludes something that does not exist",
    "W205": "a split part is empty",
    # Samples
    "E301": "a required part is missing",
    "E302": "a part does not decode",
    "E303": "a part is empty",
    "W304": "the parts of a sample are not neighbours in the shard",
    "W305": "a key occurs in two shards",
    "E306": "a sample has two parts of one name",
    "E307": "the sample cannot be made of its parts",
    "W308": "a text is empty",
    # JSONL files
    "E401": "the index of a JSONL file is missing or damaged",
    "E402": "the index of a JSONL file is not of what the file holds now",
    "E403": "a line is not one JSON object",
    "E404": "a line is not UTF-8",
    "W405": "there are blank lines",
    "W406": "the file begins with a byte order mark",
    "E407": "a JSONL file has no samples",
    # Metadatasets
    "E501": "a metadataset says something wrong",
    "E502": "a dataset that a metadataset names is missing or not prepared",
    "W503": "a metadataset reaches the same samples twice",
    "E504": "a dataset of a metadataset has no samples to give, or not the split part that is asked for",
    "E505": "a join is not prepared, or the datasets it joins changed since",
    "E506": "an auxiliary store cannot be opened",
    "W507": "a split for training and another one share samples",
    # Folders of files
    "E601": "the media metadata of a folder cannot be read",
    "E602": "a file that media metadata was collected of is gone",
    "E603": "a file is not the one that its media metadata is of",
    "E604": "a file cannot be read as what its name or header says",
}
"""Code → what it means. E is an error (exit code 1), W a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        code: One of :data:`CODES`.
        message: What was found and what was expected.
        shard: The shard concerned, relative to the dataset.
        key: The bare key of the sample concerned.
        part: The part concerned.
        offset: Byte offset in the shard.
        dataset: The path of the dataset, where several are checked at once; the shard is relative to it.
    """

    code: str
    message: str
    shard: str | None = None
    key: str | None = None
    part: str | None = None
    offset: int | None = None
    dataset: str | None = None

    @property
    def severity(self) -> str:
        return "error" if self.code.startswith("E") else "warning"

    @property
    def is_sample(self) -> bool:
        """Whether leaving one sample out mends it."""
        return self.code in ("E301", "E302", "E303", "E306", "E307") and self.shard is not None and self.key is not None
