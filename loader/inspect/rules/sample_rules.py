"""Rules about samples and metadatasets."""

from __future__ import annotations

from .rule import Rule, RuleGroup

SAMPLE_RULES = RuleGroup(
    "Samples",
    "`energon lint --fix` excludes the samples with these errors.",
    (
        Rule(
            "E301",
            "The sample cannot be built. Training logs an error and skips it.",
            "exclude the sample, or correct the field map",
            "`000083.jpg` has no `000083.txt`, which the field `caption` needs.",
        ),
        Rule(
            "E302",
            "The sample fails to load. Training logs an error and skips it; 100 failures in a row stop the run. Sound "
            "and video that end too early may load: training then gets less than was recorded, without an error.",
            "exclude the sample, or rewrite it",
            "A download saved the error page of a web server as `000083.jpg`, which begins with `<!DOCTYPE html>`.",
        ),
        Rule(
            "E303",
            "An empty image, sound or JSON text does not decode, so that the sample fails to load.",
            "exclude the sample, or rewrite it",
            "The disk was full when the shard was written, and `000083.jpg` has 0 bytes.",
        ),
        Rule(
            "W304",
            "Reading such a sample costs several requests. Other readers of the format split it into several samples.",
            "none here; other readers of the format split it into several samples",
            "`tar` sorted the files by extension: all `.jpg` members come before all `.txt` members.",
        ),
        Rule(
            "W305",
            "A bare key does not identify a sample, so that joins, stores and `exclude` may name another one.",
            "see [Fix a broken dataset](../how-to/fix-a-broken-dataset.md#several-shards-have-the-same-key)",
            "Each shard numbers its samples from 000000.",
        ),
        Rule(
            "E306",
            "Only one of the two parts is loaded, and readers disagree on which one.",
            "exclude the sample",
            "A job that was restarted appended `000083.jpg` a second time.",
        ),
        Rule(
            "E307",
            "The sample fails to load. Training logs an error and skips it.",
            "correct the field map, or exclude the sample; the message has the reason",
            "The field map reads `json[caption]`, and the json of this sample has no `caption`.",
        ),
        Rule(
            "W308",
            "The model learns that a picture may have no caption, or that a question has no answer.",
            "none, if texts may be empty; otherwise check its origin",
            "The service that writes captions timed out, and the job stored an empty text.",
        ),
        Rule(
            "W309",
            "A key ends at the first dot, so that no field of a sample type has all of these files.",
            "rename the files, or unpack the shards and run `energon import`, which replaces such dots",
            "The files are named by time: `cam.2024-01-31.jpg` is the part `2024-01-31.jpg` of the sample `cam`.",
        ),
        Rule(
            "W310",
            "A JSON part takes up to thirty times its size in memory, in each worker that decodes it. A command does "
            "not parse larger ones than its `--max-json-bytes`, nor what of a compressed part exceeds it.",
            "store large values as parts of their own: arrays as `.npy`, texts as `.txt`; or raise `--max-json-bytes`",
            "A job wrote the annotations of all pictures, 225 MB, into the `.json` of the first one.",
        ),
    ),
)

METADATASET_RULES = RuleGroup(
    "Metadatasets",
    "The message starts with the place in the document, `splits.train.blend[2].path`. For a nested document, it "
    "starts with the file.",
    (
        Rule(
            "E501",
            "No loader opens the document.",
            "correct it; only then are the datasets of its splits checked",
            "`weigth: 2` instead of `weight: 2`.",
        ),
        Rule(
            "E502",
            "No loader opens the split that references it.",
            "correct the path, or prepare that dataset",
            "A path is relative to the document, and the document was moved.",
        ),
        Rule(
            "W503",
            "These samples count twice, so that the mix is another one than the weights state.",
            "remove one reference, or use subsets that do not overlap; none, if both should count",
            "A nested metadataset contains a dataset that the outer one also lists.",
        ),
        Rule(
            "E504",
            "The blend would wait for a sample that never comes, so loaders refuse it.",
            "correct `split_part` or `subset`",
            "`split_part: val` of a dataset that was prepared with `--split-ratio 1,0,0`.",
        ),
        Rule(
            "E505",
            "The rows of the join are those of other samples, or unknown.",
            "`energon prepare` with the metadataset that contains the join",
            "A member of the join was prepared again with more shards.",
        ),
        Rule(
            "E506",
            "Cookers that read from the store fail for every sample.",
            "correct its path; for a folder of plain files, write `filesystem://` and its path",
            "`aux: {images: ../images}` names a folder of plain files.",
        ),
        Rule(
            "W507",
            "The validation loss is too low, since the model has seen these samples.",
            "correct `split_part` or `subset`; none, if you evaluate the model on training data",
            "`splits.val` lists a dataset with `split_part: train`.",
        ),
        Rule(
            "W508",
            "Loaders refuse the blend, unless the task encoder has a metric of this name.",
            "correct `blend_weight_unit`, or write the column; none, if the task encoder has a metric of this name",
            "`blend_weight_unit: tokns`, where the datasets have a column `tokens`.",
        ),
    ),
)
