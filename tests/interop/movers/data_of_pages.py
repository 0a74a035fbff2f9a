"""Scripts that write the data which the pages for movers name, with the libraries that their readers come from."""

from __future__ import annotations

from collections.abc import Mapping

_PICTURE = """\
import io
from PIL import Image

def picture(number):
    file = io.BytesIO()
    Image.new("RGB", (32, 24), (number % 256, 2 * number % 256, 0)).save(file, "jpeg")
    return file.getvalue()
"""

_TARS = """\
import pathlib
import webdataset

pathlib.Path("/data/photos").mkdir()
for shard in range(5):
    with webdataset.TarWriter(f"/data/photos/shard_{shard:06}.tar") as tar:
        for number in range(20 + shard):
            key = f"{shard}{number:03}"
            tar.write({"__key__": key, "jpg": picture(number), "txt": f"photo {key}", "cls": number % 3})
"""

_MDS = """\
from streaming import MDSWriter

with MDSWriter(out="/data/photos_mds", columns={"jpg": "jpeg", "txt": "str", "cls": "int"}) as writer:
    for number in range(100):
        writer.write({"jpg": picture(number), "txt": f"photo {number}", "cls": number % 3})
"""

_LITDATA = """\
import litdata

def sample(number):
    return {"photo": picture(number), "txt": f"photo {number}", "cls": number % 3}

if __name__ == "__main__":
    litdata.optimize(
        fn=sample, inputs=list(range(100)), output_dir="/data/photos_litdata", chunk_bytes="1MB", num_workers=1
    )
"""

_PARQUET = """\
import datasets

features = {"jpg": datasets.Image(), "cls": datasets.ClassLabel(names=["cat", "dog", "ox"])}
for shard in range(2):
    numbers = range(50 * shard, 50 * shard + 50)
    columns = {"jpg": [{"bytes": picture(n), "path": None} for n in numbers], "cls": [n % 3 for n in numbers]}
    table = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    table.to_parquet(f"/data/photos/train-{shard:05}-of-00002.parquet")
"""

_CLASSES = """\
import pathlib

for number in range(100):
    path = pathlib.Path(f"/data/pictures/{'cat' if number % 3 else 'dog'}/{number}.jpg")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture(number))
"""

_MODEL = """\
import json
import pathlib
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

words = ["<pad>", "<unk>", "</s>", *"the cat sat on a mat and dog ran".split(), *map(str, range(100))]
tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", eos_token="</s>"
).save_pretrained("/data/tiny-model")
sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
config = LlamaConfig(vocab_size=len(words), num_key_value_heads=2, pad_token_id=0, eos_token_id=2, **sizes)
LlamaForCausalLM(config).save_pretrained("/data/tiny-model")
lines = (json.dumps({"text": f"the cat {n} sat on a mat {n % 7} and the dog ran"}) for n in range(100))
pathlib.Path("/data/texts.jsonl").write_text("\\n".join(lines))
"""

DATA_OF_PAGES: Mapping[str, tuple[str, ...]] = {
    "webdataset": (_PICTURE, _TARS),
    "mosaicml-streaming": (_PICTURE, _MDS),
    "litdata": (_PICTURE, _LITDATA),
    "hugging-face-datasets": (_PICTURE, _PARQUET),
    "trainer-and-accelerate": (_MODEL,),
    "torch-dataloader": (_PICTURE, _CLASSES),
}
