"""Tables as programs and people write them: late columns, odd quotes, encodings, views of Arrow, conversations."""

from __future__ import annotations

import base64
import csv
import io
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from tests.layouts.layout import card, layout, picture, table, write

MEDIA = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
TURNS = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


@layout(
    samples={f"{n:09d}": "jpg txt" for n in range(4)},
    sample_type="CaptioningSample",
    texts={"000000001.txt": '"a cat', "000000002.txt": '"big" dog', "000000003.txt": 'end"'},
    note="the first line of .*Train.tsv is data",
    forms=("folder",),
)
def captions_of_the_web_without_a_header(folder: Path) -> str:
    write(folder, [f"{n}.jpg" for n in range(4)])
    captions = ["a", '"a cat', '"big" dog', 'end"']
    write(folder, {"Train.tsv": "".join(f"file://{folder}/{n}.jpg\t{text}\n" for n, text in enumerate(captions))})
    return "Train.tsv"


@layout(
    samples={"a": "jpg txt", "b": "jpg txt", "c": "jpg txt"},
    sample_type="CaptioningSample",
    texts={"a.txt": '"open', "b.txt": "two\nlines, here", "c.txt": 'say "c"'},
    note="read as they are: 1, the first is line 2",
    forms=("folder",),
)
def csv_with_an_open_quote(folder: Path) -> str:
    write(folder, ["a.jpg", "b.jpg", "c.jpg"])
    write(folder, {"t.csv": 'image,caption\na.jpg,"open\nb.jpg,"two\nlines, here"\nc.jpg,"say ""c"""\n'})
    return "t.csv"


@layout(
    samples={"late": "jpg txt"},
    left_out={"rows L120": 200},
    sample_type="CaptioningSample",
    forms=("folder",),
)
def jsonl_with_a_late_picture(folder: Path) -> str:
    write(folder, ["late.jpg"])
    rows = [{"image": None, "text": f"{n}"} for n in range(200)] + [{"image": "late.jpg", "text": "x"}]
    write(folder, {"t.jsonl": "\n".join(map(json.dumps, rows))})
    return "t.jsonl"


@layout(
    samples={"000000050": "jpg txt", "000000051": "jpg txt"},
    left_out={"rows L120": 50},
    sample_type="CaptioningSample",
    forms=("folder",),
)
def parquet_with_nulls_in_the_first_row_group(folder: Path) -> str:
    images = [None] * 50 + [{"bytes": picture(), "path": None}] * 2
    rows = pa.table({"image": pa.array(images, MEDIA), "caption": ["c"] * 52})
    parquet.write_table(rows, folder / "t.parquet", row_group_size=25)
    return "t.parquet"


@layout(
    samples={"000000000": "jpg txt", "000000001": "jpg txt", "000000002": "txt"},
    sample_type="CaptioningSample",
    options={"keep_text_only": True},
    forms=("folder",),
)
def parquet_of_polars_with_text_only_rows(folder: Path) -> str:
    images = [picture(), picture(), None]
    pl: Any = import_module("polars")  # slow to import for those who only collect
    pl.DataFrame({"image": images, "text": ["a", "b", "c"]}).write_parquet(folder / "t.parquet")
    return "t.parquet"


@layout(samples={"000000000": "jpg txt", "000000001": "jpg txt"}, sample_type="CaptioningSample", forms=("folder",))
def arrow_of_polars_with_views(folder: Path) -> str:
    pl: Any = import_module("polars")
    pl.DataFrame({"image": [picture()] * 2, "caption": ["a", "b"]}).write_ipc(folder / "t.arrow", compression="lz4")
    return "t.arrow"


@layout(
    samples={"000000000": "jpg json txt"},
    left_out={"rows F101": 1, "parts F101": 1},
    sample_type="CaptioningSample",
    texts={"000000000.txt": "what is it?"},
    forms=("folder",),
)
def questions_about_pictures_in_base64(folder: Path) -> str:
    text = io.StringIO()
    rows = csv.writer(text, delimiter="\t", lineterminator="\n")
    rows.writerow(["index", "image", "question", "description"])
    rows.writerow([0, base64.b64encode(picture()).decode(), "q", "what is it?"])
    text.write("1\tno picture\n")
    write(folder, {"t.tsv": text.getvalue()})
    return "t.tsv"


@layout(
    samples={"a": "jpg txt", "b": "jpg txt"},
    sample_type="CaptioningSample",
    texts={"a.txt": "größe"},
    note="is read as UTF-16",
    forms=("folder",),
)
def csv_of_a_spreadsheet_in_utf16(folder: Path) -> str:
    write(folder, ["a.jpg", "b.jpg"])
    write(folder, {"t.csv": "image;caption\r\na.jpg;größe\r\nb.jpg;x\r\n".encode("utf-16")})
    return "t.csv"


@layout(
    samples={"a": "jpg txt", "b": "jpg txt"},
    left_out={"rows F102": 1, "parts F102": 2},
    sample_type="CaptioningSample",
    note="lead to no file: pictures/a.jpg",
    forms=("folder",),
)
def names_of_files_in_a_folder_below(folder: Path) -> str:
    write(folder, ["pictures/a.jpg", "pictures/b.jpg"])
    write(folder, {"t.csv": "my image,caption\na.jpg,x\nb.jpg,y\nmissing.jpg,z\n"})
    return "t.csv"


@layout(
    samples={"000000000": "images.0.jpg json", "000000001": "json", "000000002": "json"},
    sample_type="ConversationSample",
    forms=("folder",),
)
def chats_in_parquet_with_lists_of_pictures(folder: Path) -> str:
    images = pa.array([[{"bytes": picture(), "path": None}], [], None], pa.list_(MEDIA))
    parquet.write_table(pa.table({"messages": [TURNS] * 3, "images": images}), folder / "t.parquet")
    return "t.parquet"


@layout(
    samples={"a": "jpg json", "000000001": "json", "000000002": "json"},
    sample_type="ConversationSample",
    texts={"000000001.json": '{"conversations":[{"from":"human","value":"hi"},{"from":"gpt","value":"hello"}]}'},
    forms=("folder",),
)
def chats_in_parquet_as_text(folder: Path) -> str:
    write(folder, ["a.jpg"])
    turns = json.dumps([{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}])
    write(folder, {"t.parquet": table({"conversations": [turns.replace(" ", "")] * 3, "image": ["a.jpg", None, ""]})})
    return "t.parquet"


@layout(
    samples={"000000000": "left_view.jpg right_view.jpg txt", "000000001": "left_view.jpg txt"},
    forms=("folder",),
)
def two_pictures_of_a_row_of_which_one_is_null(folder: Path) -> str:
    columns: dict[str, list[object]] = {"left view": [picture()] * 2, "right view": [picture(), None]}
    columns["prompt"] = ["a", "b"]
    write(folder, {"t.parquet": table(columns)})
    return "t.parquet"


CLASSES = ["dog", "cat", "dog", "bird"]
NUMBERS = ["2", "1", "2", "0"]


@layout(
    samples={f"{n:09d}": "cls jpg json" for n in range(4)},
    sample_type="ImageClassificationSample",
    texts={f"{n:09d}.cls": NUMBERS[n] for n in range(4)} | {"000000003.json": '{"label_name":"bird"}'},
    forms=("folder",),
)
def pictures_with_labels_of_text(folder: Path) -> str:
    write(folder, {"t.parquet": table({"image": [picture()] * 4, "label": CLASSES})})
    return "t.parquet"


@layout(
    samples={f"{n:09d}": "cls jpg json txt" for n in range(4)},
    texts={"000000000.cls": "2", "000000000.json": '{"label_name":"dog"}', "000000000.txt": "it runs"},
    forms=("folder",),
)
def pictures_with_labels_and_captions(folder: Path) -> str:
    columns: dict[str, list[Any]] = {
        "image": [picture()] * 4,
        "label": CLASSES,
        "text": ["it runs", "it sits", "it sleeps", "it sings"],
    }
    write(folder, {"t.parquet": table(columns)})
    return "t.parquet"


@layout(
    samples={f"{n:09d}": "cls jpg txt" for n in range(2)},
    forms=("folder",),
)
def pictures_with_numbered_labels_and_texts(folder: Path) -> str:
    write(folder, {"t.parquet": table({"image": [picture()] * 2, "label": [0, 1], "text": ["a", "b"]})})
    return "t.parquet"


@layout(
    samples={"a": "cls json", "b": "cls json", "c": "cls json"},
    texts={"a.cls": "0", "b.cls": "1", "c.cls": "0", "c.json": '{"label_name":"cat"}'},
    forms=("folder",),
)
def ids_and_labels_alone(folder: Path) -> str:
    write(folder, {"t.csv": "id,label\na,cat\nb,dog\nc,cat\n"})
    return "t.csv"


@layout(
    samples={f"{n}": "cls jpg json" for n in range(6)},
    sample_type="ImageClassificationSample",
    texts={"0.cls": "1", "5.cls": "0", "5.json": '{"label_name":"beagle"}'},
)
def ids_and_few_different_texts(folder: Path) -> None:
    write(folder, [f"images/{n}.jpg" for n in range(6)])
    rows = "".join(f"{n},{('pug', 'beagle')[n % 2]}\n" for n in range(6))
    write(folder, {"labels.csv": f"id,breed\n{rows}"})


@layout(
    samples={f"{n:09d}": "jpg txt" for n in range(6)},
    sample_type="CaptioningSample",
    forms=("folder",),
)
def captions_of_which_some_are_equal(folder: Path) -> str:
    captions = ["a dog runs on the beach", "a cat sleeps in the sun"] * 3
    write(folder, {"t.parquet": table({"image": [picture()] * 6, "sentence_of_a_worker": captions})})
    return "t.parquet"


@layout(
    samples={"a": "jpg json", "b": "jpg json", "c": "jpg json", "d": "jpg json"},
    sample_type="ImageClassificationSample",
    texts={"a.json": '{"label_name":"cat"}', "d.json": '{"label_name":"dog"}'},
)
def labels_of_two_tables_that_have_other_classes(folder: Path) -> None:
    write(folder, [f"{name}.jpg" for name in "abcd"])
    write(folder, {"one.csv": "file,label\na.jpg,cat\nb.jpg,dog\n", "two.csv": "file,label\nc.jpg,dog\nd.jpg,dog\n"})


@layout(
    samples={"000000000": "json txt", "000000001": "json txt"},
    texts={"000000000.json": '{"chosen":"so","rejected":"no"}'},
    forms=("folder",),
)
def preferences(folder: Path) -> str:
    rows = [{"prompt": "why is that?", "chosen": "so", "rejected": "no"}] * 2
    write(folder, {"t.jsonl": "\n".join(map(json.dumps, rows))})
    return "t.jsonl"


@layout(samples={"a": "jpg txt", "b": "jpg txt"}, forms=("folder",))
def a_column_of_boxes_is_no_caption(folder: Path) -> str:
    write(folder, ["a.jpg", "b.jpg"])
    write(folder, {"t.csv": "image,caption\na.jpg,0 0.5 0.5 0.2 0.2\nb.jpg,1 0.1 0.1 0.2 0.2\n"})
    return "t.csv"


@layout(samples={"a": "mp4 txt", "b": "mp4 txt"}, forms=("folder",))
def videos_with_captions(folder: Path) -> None:
    write(folder, {"a.mp4": b"\0\0\0\x18ftypisom", "a.txt": "a cat", "b.mp4": b"\0\0\0\x18ftypisom", "b.txt": "a dog"})


@layout(error="val.parquet cannot be read: this Parquet file cannot be read")
def a_cut_table_next_to_a_whole_one(folder: Path) -> None:
    for split in ("train", "val"):
        names = [f"images/{split}{n}.jpg" for n in range(4)]
        write(folder, names)
        data = table({"image": names, "caption": [f"a cat {name}" for name in names]})
        write(folder, {f"{split}.parquet": data[: -60 if split == "val" else None]})


@card(
    samples={f"lines/a01/a01-{n:03d}/a01-{n:03d}-00": "png txt" for n in range(6)},
    holds={"lines/a01/a01-004/a01-004-00": "A|MOVE|to|stop"},
    sample_type="CrudeSample",
)
def iam_lines(folder: Path) -> None:
    names = [f"a01-{n:03d}" for n in range(6)]
    write(folder, [f"lines/a01/{name}/{name}-00.png" for name in names])
    rows = [f"{name}-00 ok 154 19 408 746 1661 89 A|MOVE|to|stop\n" for name in names]
    write(folder, {"lines.txt": "".join(["#--- lines.txt ---#\n", "# format: a01-000u-00 ok 154 19 408\n", *rows])})
