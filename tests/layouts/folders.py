"""Folders of files, those of Hugging Face, clones of repositories, and pairs that share no name."""

from __future__ import annotations

import json
import warnings
import zipfile
from pathlib import Path

from tests.layouts.layout import layout, picture, table, tar_of, write

LINES = "\n".join(json.dumps({"file_name": f"{n:04d}.png", "text": f"picture {n}", "year": 2000 + n}) for n in range(3))


@layout(
    samples={"0000": "json png txt", "0001": "json png txt", "0002": "json png txt"},
    left_out={"files L119": 1, "files L102": 1},
    sample_type="CaptioningSample",
    texts={"0001.txt": "picture 1", "0001.json": '{"year":2001}'},
    note="the 3 rows of metadata.jsonl, with the names of 3 of 4 files",
)
def hugging_face_image_folder(folder: Path) -> None:
    write(folder, ["0000.png", "0001.png", "0002.png", "0003.png", "README.md"])
    write(folder, {"metadata.jsonl": LINES, ".gitattributes": "*.png filter=lfs"})


@layout(
    samples={"train/a": "train: jpg txt", "train/b": "train: jpg txt", "test/x/a": "test: jpg txt"},
    sample_type="CaptioningSample",
)
def hugging_face_metadata_of_each_split(folder: Path) -> None:
    write(folder, ["train/a.jpg", "train/b.jpg", "test/x/a.jpg"])
    write(folder, {"train/metadata.csv": "file_name,caption\na.jpg,one\nb.jpg,two\n"})
    write(folder, {"test/metadata.csv": "file_name,caption\nx/a.jpg,three\n"})


@layout(
    samples={
        "train/a": "train: jpg json",
        "train/b": "train: jpg json",
        "val/a": "val: jpg json",
    },
    left_out={"rows F102": 1, "parts F102": 2},
    sample_type="ImageSample",
)
def hugging_face_parquet_metadata_at_the_root(folder: Path) -> None:
    write(folder, ["train/a.jpg", "train/b.jpg", "val/a.jpg"])
    names = ["train/a.jpg", "train/b.jpg", "val/a.jpg", "val/missing.jpg"]
    write(folder, {"metadata.parquet": table({"file_name": names, "score": [1, 2, 3, 4]})})


@layout(samples=dict.fromkeys("01", "before_file_name.jpg json mask_file_name.png"))
def hugging_face_several_files_of_a_row(folder: Path) -> None:
    write(folder, [f"{kind}/{n}.{end}" for n in range(2) for kind, end in (("before", "jpg"), ("mask", "png"))])
    rows = [{"id": n, "before_file_name": f"before/{n}.jpg", "mask_file_name": f"mask/{n}.png", "x": n} for n in (0, 1)]
    write(folder, {"metadata.jsonl": "\n".join(map(json.dumps, rows))})


@layout(samples={"a0": "frames_file_names.0.jpg frames_file_names.1.jpg txt", "b0": "frames_file_names.0.jpg txt"})
def hugging_face_lists_of_files(folder: Path) -> None:
    write(folder, ["a0.jpg", "a1.jpg", "b0.jpg"])
    rows = [
        {"frames_file_names": ["a0.jpg", "a1.jpg"], "text": "two"},
        {"frames_file_names": ["b0.jpg"], "text": "one"},
    ]
    write(folder, {"metadata.jsonl": "\n".join(map(json.dumps, rows))})


@layout(
    samples={"Images/1": "jpg txt", "Images/2": "jpg txt"},
    left_out={"files L119": 1},
    sample_type="CaptioningSample",
    texts={"Images/2.txt": "a cat"},
)
def kaggle_captions_next_to_pictures(folder: Path) -> None:
    write(folder, ["Images/1.jpg", "Images/2.jpg", "Images/3.jpg"])
    write(folder, {"captions.csv": "image,caption\nImages/1.jpg,a dog\nImages/2.jpg,a cat\n"})


@layout(samples={"images/1": "jpg txt", "images/é": "jpg txt"}, sample_type="CaptioningSample")
def a_table_below_with_names_of_windows_and_macos(folder: Path) -> None:
    write(folder, ["images/1.jpg", "images/\u00e9.jpg"])
    write(folder, {"labels/captions.csv": "image,caption\n..\\images\\1.jpg,one\n../images/e\u0301.jpg,two\n"})


@layout(error="several kinds of data.*text tables: 1 .*such as labels.csv; files: 2 .*such as x/a.jpg")
def a_table_that_names_no_files_next_to_pictures(folder: Path) -> None:
    write(folder, ["x/a.jpg", "x/b.jpg"])
    write(folder, {"labels.csv": "number,label\n7,cat\n8,dog\n"})


@layout(
    samples={"x/a": "jpg", "x/b": "jpg"},
    left_out={"files L103": 1},
    sample_type="ImageSample",
    kind="folder",
    forms=("folder",),
)
def a_table_next_to_pictures_that_are_named(folder: Path) -> None:
    a_table_that_names_no_files_next_to_pictures(folder)


CLONE = ["README.md", "LICENSE", ".gitattributes", ".git/x.jpg", "load.py", "figures/plot.png", "dataset_infos.json"]


@layout(
    samples={"data/train-0/000000000": "train: jpg txt", "data/test-0/000000000": "test: jpg txt"},
    left_out={"files L102": 5},
    sample_type="CaptioningSample",
)
def a_clone_with_parquet_files(folder: Path) -> None:
    write(folder, CLONE)
    for split in ("train", "test"):
        write(folder, {f"data/{split}-0.parquet": table({"image": [picture()], "text": [split]})})


@layout(
    samples={"1": "jpg txt", "2": "jpg txt"},
    left_out={"files L102": 5},
    sample_type="CaptioningSample",
)
def a_clone_with_tars(folder: Path) -> None:
    write(folder, CLONE)
    write(folder, {f"data/{n}.tar": tar_of({f"{n}.jpg": picture(), f"{n}.txt": b"x"}) for n in (1, 2)})


@layout(
    samples={"train/000000000": "train: txt", "train/000000001": "train: txt", "test/000000000": "test: txt"},
    left_out={"files L102": 5},
    sample_type="TextSample",
)
def a_clone_with_json_lines(folder: Path) -> None:
    write(folder, CLONE)
    write(folder, {"train.jsonl": '{"text": "a"}\n{"text": "b"}\n', "test.jsonl": '{"text": "c"}\n'})


@layout(error="several kinds of data.*Parquet and Arrow tables: 1 .*files: 2", forms=("folder", "zip"))
def a_table_and_pictures_that_do_not_belong_together(folder: Path) -> None:
    write(folder, ["photos/a.jpg", "photos/b.jpg"])
    write(folder, {"data/x.parquet": table({"text": ["one"]})})


@layout(
    samples={"000": "jpg json txt"},
    left_out={"files L102": 1, "files L103": 1},
    sample_type="CaptioningSample",
)
def the_output_of_img2dataset(folder: Path) -> None:
    write(folder, {"00000.tar": tar_of({"000.jpg": picture(), "000.txt": b"x", "000.json": b"{}"})})
    write(folder, {"00000.parquet": table({"url": ["x"]}), "00000_stats.json": "{}"})


@layout(
    samples={"train/a": "train: jpg json", "train/b": "train: jpg json", "val/a": "val: jpg"},
    left_out={"files L102": 2},
    note="of YOLO in train.*\n1 of 3 samples have no partner\nthe files .* but for the folder: images, labels",
)
def yolo(folder: Path) -> None:
    write(folder, ["images/train/a.jpg", "images/train/b.jpg", "images/val/a.jpg"])
    write(folder, {"labels/train/a.txt": "0 .5 .5 1 1", "labels/train/b.txt": "0 .5 .5 1 1"})
    write(folder, {"classes.txt": "cat", "data.yaml": "names: [cat]"})
    write(folder, {"train.txt": "images/train/a.jpg\nimages/train/b.jpg\n"})


@layout(
    samples={f"{n}": "jpg json" for n in range(10)},
    left_out={"rows F101": 1, "parts F101": 2, "rows F102": 1, "parts F102": 1},
)
def yolo_with_a_damaged_file_and_a_missing_picture(folder: Path) -> None:
    write(folder, [f"{n}.jpg" for n in range(11)])
    write(folder, {f"{n}.txt": "0 .5 .5 1 1" if n != 10 else "0 .5 .5 1" for n in range(12)})


@layout(
    samples={"train/a": "train: jpg txt", "valid/b": "val: jpg txt"},
    sample_type="CaptioningSample",
)
def roboflow(folder: Path) -> None:
    write(folder, ["train/images/a.jpg", "train/labels/a.txt", "valid/images/b.jpg", "valid/labels/b.txt"])


@layout(
    samples={
        "VOC/2007_01": "jpg segmentationclass.png xml",
        "VOC/2007_02": "jpg segmentationclass.png xml",
        "VOC/2007_03": "jpg xml",
    },
    left_out={"files L102": 1},
)
def pascal_voc(folder: Path) -> None:
    names = ["2007_01", "2007_02", "2007_03"]
    write(folder, [f"VOC/JPEGImages/{name}.jpg" for name in names])
    write(folder, [f"VOC/Annotations/{name}.xml" for name in names])
    write(folder, [f"VOC/SegmentationClass/{name}.png" for name in names[:2]])
    write(folder, {"VOC/ImageSets/Main/train.txt": "2007_01\n"})


@layout(samples={"a": "masks.png png", "b": "masks.png png"})
def pictures_and_masks_of_one_format(folder: Path) -> None:
    write(folder, ["images/a.png", "images/b.png", "masks/a.png", "masks/b.png"])


@layout(samples={"JPEGImages/a": "jpg", "SegmentationClass/b": "png"}, sample_type="ImageSample")
def folders_of_parts_are_no_classes(folder: Path) -> None:
    write(folder, ["JPEGImages/a.jpg", "SegmentationClass/b.png"])


@layout(
    samples={"s1": "input.png target.png", "s2": "input.png target.png"},
    left_out={"files L102": 1},
    note="the same folder",
)
def a_folder_for_each_sample(folder: Path) -> None:
    write(folder, ["s1/input.png", "s1/target.png", "s2/input.png", "s2/target.png", "README.md"])


@layout(
    samples={"1": "png txt", "2": "png txt"}, note="the same number behind caption, img", sample_type="CaptioningSample"
)
def numbers_behind_prefixes(folder: Path) -> None:
    write(folder, ["img1.png", "img2.png", "caption1.txt", "caption2.txt"])


@layout(
    samples={"x/1": "left.png right.png", "y/2": "left.png right.png"},
    options={"group_by": "number"},
)
def a_named_grouping(folder: Path) -> None:
    write(folder, ["x/left_1.png", "x/right_1.png", "y/left_2.png", "y/right_2.png"])


@layout(
    samples={"top/cats/1": "cls jpg json", "top/dogs/1": "cls jpg json"},
    sample_type="ImageClassificationSample",
    left_out={"files L102": 1},
)
def classes_with_equal_names(folder: Path) -> None:
    write(folder, ["top/cats/1.jpg", "top/dogs/1.jpg", "top/README.md"])


@layout(
    samples={"a": "2.jpg jpg", "b": "jpg txt", "0": "jpg", "0_5": "jpg", "x_y": "jpg", "x_y-2": "jpg"},
    note="1 sample has two files of one extension",
    forms=("folder", "zip"),  # in a tar, the part name begins at the first dot
)
def dots_and_case(folder: Path) -> None:
    write(folder, ["a.JPG", "a.jpg", "b.jpg", "b.jpg.txt", "0.jpg", "0.5.jpg", "x.y.jpg", "x_y.jpg"])


@layout(samples={"\u00e9": "jpg txt"}, sample_type="CaptioningSample", forms=("folder", "zip"))
def one_name_in_two_forms_of_unicode(folder: Path) -> None:
    write(folder, ["\u00e9.jpg", "e\u0301.txt"])


@layout(
    samples={"a": "jpg txt"},
    left_out={"files L104": 2, "files L105": 1, "files L108": 3, "files L101": 1},
    sample_type="CaptioningSample",
    forms=("folder",),
)
def links_pipes_and_files_of_systems(folder: Path) -> None:
    import os

    write(folder, ["a.jpg", "a.txt", "._a.jpg", "Thumbs.db", "__MACOSX/._a.jpg", ".DS_Store", "photo"])
    (folder / "gone.jpg").symlink_to("nothing")
    (folder / "up").symlink_to(folder)
    os.mkfifo(folder / "pipe.jpg")


@layout(
    samples={"a": "jpg txt", "c": "jpg txt"},
    left_out={"rows F103": 1, "parts F103": 2},
    sample_type="CaptioningSample",
)
def empty_files(folder: Path) -> None:
    write(folder, ["a.jpg", "b.txt", "c.jpg", "c.txt"])
    write(folder, {"a.txt": "", "b.jpg": b""})


@layout(
    samples={"a": "jpg txt"},
    left_out={"rows F104": 3, "parts F104": 6},
    sample_type="CaptioningSample",
)
def pointers_and_error_pages(folder: Path) -> None:
    write(folder, ["a.jpg", "a.txt", "b.txt", "c.txt", "d.jpg"])
    pointer = (
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32\nsize 12345\n"
    )
    write(
        folder, {"b.jpg": pointer, "d.txt": pointer, "c.jpg": "<!DOCTYPE html><html><body>404 Not Found</body></html>"}
    )


@layout(
    samples={"a": "csv jpg", "b": "csv jpg"},
    left_out={"files L103": 1},
    kind="folder",
    forms=("folder",),
    sample_type="ImageSample",
)
def tables_that_belong_to_samples(folder: Path) -> None:
    write(folder, ["a.jpg", "b.jpg"])
    write(folder, {"a.csv": "t,x\n0,1\n", "b.csv": "t,x\n0,1\n", "all.csv": "t,x\n0,1\n"})


@layout(
    samples={"clips/a": "train: mp3 txt", "clips/b": "test: mp3 txt"},
    left_out={"files L119": 1},
)
def common_voice(folder: Path) -> None:
    write(folder, ["clips/a.mp3", "clips/b.mp3", "clips/c.mp3"])
    write(folder, {"train.tsv": "path\tsentence\na.mp3\tone\n", "test.tsv": "path\tsentence\nb.mp3\ttwo\n"})


@layout(
    samples={"train/1": "train: jpg txt", "test/1": "test: jpg txt"},
    sample_type="CaptioningSample",
    texts={"train/1.txt": "in train", "test/1.txt": "in test"},
)
def tables_named_after_folders_of_equal_names(folder: Path) -> None:
    write(folder, ["train/1.jpg", "test/1.jpg"])
    for split in ("train", "test"):
        write(folder, {f"{split}.csv": f"file,caption\n1.jpg,in {split}\n"})


@layout(samples={"train2017/1": "jpg json", "train2017/2": "jpg json"})
def coco_as_a_folder(folder: Path) -> None:
    write(folder, ["train2017/1.jpg", "train2017/2.jpg"])
    images = [{"id": n, "file_name": f"{n}.jpg"} for n in (1, 2)]
    boxes = [{"id": 1, "image_id": 1, "bbox": [0, 0, 1, 1], "category_id": 1}]
    write(folder, {"annotations/instances.json": json.dumps({"images": images, "annotations": boxes})})


@layout(error="imported one by one.*archives: 2 .*such as a.zip", forms=("folder", "zip"))
def several_archives(folder: Path) -> None:
    for name in ("a", "b"):
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as file:
            file.writestr(f"{name}.jpg", picture())
    write(folder, {"README.md": "two files"})


@layout(error="several kinds of data.*tars: 2 .*such as x/1.tar; files: 30", forms=("folder",))
def tars_and_pictures(folder: Path) -> None:
    write(folder, [f"photos/{number}.jpg" for number in range(30)])
    write(folder, {f"x/{n}.tar": tar_of({f"{n}.jpg": picture()}) for n in (1, 2)})


@layout(
    samples={"data/photos/a": "jpg txt"},
    left_out={"files L102": 2, "files L103": 1},
    sample_type="CaptioningSample",
    kind="folder",
    forms=("folder",),
)
def a_tar_is_never_a_part(folder: Path) -> None:
    write(folder, ["data/photos/a.jpg", "data/photos/a.txt", "LICENSE", "Makefile"])
    write(folder, {"data/photos/a.tar": tar_of({"x": b""})})


@layout(
    samples={"a": "jpg yaml", "b": "jpg yaml"},
    left_out={"files L102": 2},
    sample_type="ImageSample",
)
def a_yaml_file_of_each_picture(folder: Path) -> None:
    write(folder, ["a.jpg", "a.yaml", "b.jpg", "b.yaml", "config.yaml", "train.py"])


@layout(samples={"x": "md", "y/z": "md"})
def documents_alone(folder: Path) -> None:
    write(folder, ["x.md", "y/z.md"])


@layout(
    samples={"m/k1": "flac txt", "m/k2": "flac txt"},
    note="but for the folder: text, wav",
)
def sound_and_transcripts_in_folders_of_two_levels(folder: Path) -> None:
    for key in ("k1", "k2"):
        write(folder, [f"wav/m/{key}.flac", f"text/m/{key}.txt"])


@layout(error="share what --group-by parallel needs", options={"group_by": "parallel"})
def a_grouping_that_does_not_fit(folder: Path) -> None:
    write(folder, ["x/a.jpg", "y/b.jpg"])


@layout(samples={"a": "jpg", "b": "jpg"}, options={"group_by": "name"}, sample_type="ImageSample")
def one_kind_alone(folder: Path) -> None:
    write(folder, ["a.jpg", "b.jpg"])


@layout(
    samples={"_/up": "txt", "d/x": "txt", "d/x-2": "txt"},
    left_out={"files L106": 1},
    sample_type="TextSample",
    forms=("folder",),
)
def names_of_a_hostile_zip(folder: Path) -> str:
    with warnings.catch_warnings(), zipfile.ZipFile(folder / "data.zip", "w") as file:
        warnings.simplefilter("ignore")  # of a name that is there
        for name in ("../up.txt", "d/x.txt", "d//x.txt", "d/x.txt", ".git/y.txt"):
            file.writestr(name, name)
    return "data.zip"


@layout(samples={"in/a": "jpg txt"}, sample_type="CaptioningSample", forms=("folder",))
def a_zip_of_windows(folder: Path) -> str:
    with zipfile.ZipFile(folder / "data.zip", "w") as file:
        for name in ("in/a.jpg", "in/a.txt"):
            file.writestr(name, picture() if name.endswith("jpg") else "a text")
    data = (folder / "data.zip").read_bytes().replace(b"in/a", b"in\\a")
    (folder / "data.zip").write_bytes(data)
    return "data.zip"


@layout(
    samples={"train/a": "train: jpg txt", "val/b": "val: jpg txt", "cover": "-: jpg"},
    left_out={},
    sample_type="CaptioningSample",
)
def a_picture_beside_parallel_folders(folder: Path) -> None:
    write(folder, ["images/train/a.jpg", "images/val/b.jpg", "labels/train/a.txt", "labels/val/b.txt", "cover.jpg"])


@layout(samples={"a": "jpg json", "b": "jpg json", "c": "json"}, sample_type="ConversationSample")
def a_chat_of_each_picture_and_one_without(folder: Path) -> None:
    chat = json.dumps({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]})
    write(folder, ["a.jpg", "b.jpg"])
    write(folder, {"a.json": chat, "b.json": chat, "c.json": chat})


@layout(
    samples={"Images/0": "jpg txt", "Images/0-2": "jpg txt", "Images/1": "jpg txt"},
    left_out={"files L119": 1},
    sample_type="CaptioningSample",
)
def flickr8k(folder: Path) -> None:
    write(folder, [f"Images/{number}.jpg" for number in range(3)])
    write(folder, {"captions.txt": "image,caption\n0.jpg,a dog\n0.jpg,a brown dog\n1.jpg,a cat\n"})


@layout(samples={"a": "after.png before.png", "b": "after.png before.png"})
def edited_pictures(folder: Path) -> None:
    write(folder, ["before/a.png", "before/b.png", "after/a.png", "after/b.png"])


@layout(
    samples={"1": "jpg txt"},
    left_out={"files L110": 1, "files L108": 1},
    sample_type="CaptioningSample",
    forms=("folder",),
)
def an_empty_tar_and_a_resource_fork_among_others(folder: Path) -> None:
    write(folder, {"0.tar": b"", "._1.tar": b"fork", "1.tar": tar_of({"1.jpg": picture(), "1.txt": b"x"})})


@layout(
    samples={"train/a": "2.png txt"},
    options={"parts": {"2.png": "file_name", "txt": "text"}},
    sample_type="CaptioningSample",
)
def named_columns_of_metadata(folder: Path) -> None:
    write(folder, ["train/a.png"])
    write(folder, {"train/metadata.jsonl": '{"file_name": "a.png", "text": "x", "year": 1}'})


@layout(samples={"x/a": "jpg"}, left_out={"files L103": 1}, options={"group_by": "name"}, sample_type="ImageSample")
def files_that_are_preferred_to_their_table(folder: Path) -> None:
    write(folder, ["x/a.jpg"])
    write(folder, {"captions.csv": "image,caption\nx/a.jpg,one\n"})


@layout(
    samples={"photo": " ".join(sorted([*(f"v{number}.jpg" for number in range(25)), "txt"]))},
    note="25 part names occur once each, such as v0.jpg: base names seem to contain dots",
    forms=("folder", "zip"),
)
def base_names_with_dots(folder: Path) -> None:
    write(folder, ["photo.txt", *(f"photo.v{number}.jpg" for number in range(25))])


@layout(
    samples={"a": "jpg txt", "b": "jpg txt"},
    left_out={"files L119": 2, "rows F102": 1, "parts F102": 2},
    sample_type="CaptioningSample",
    note="the samples are the 3 rows of data.csv, with the names of 2 of 4 files",
)
def a_table_next_to_the_pictures_that_it_lists(folder: Path) -> None:
    write(folder, ["a.jpg", "b.jpg", "not_listed.jpg", "not_listed.json"])
    write(folder, {"data.csv": "image,caption\na.jpg,one\nb.jpg,two\nmissing.jpg,three\n"})


@layout(
    samples={"train/a": "train: jpg txt", "validation/b": "val: jpg txt"},
    sample_type="CaptioningSample",
    note="the samples are the 2 rows of captions.json, with the names of 2 of 2 files",
)
def a_list_of_json_next_to_the_pictures_that_it_lists(folder: Path) -> None:
    write(folder, ["train/a.jpg", "validation/b.jpg"])
    rows = [{"image": "train/a.jpg", "caption": "one"}, {"image": "validation/b.jpg", "caption": "two"}]
    write(folder, {"captions.json": json.dumps(rows, indent=1)})


@layout(
    samples={"train/a": "train: jpg txt", "val/c": "val: jpg"},
    left_out={"files L119": 1},
    note="the samples are the 1 row of train/metadata.csv",
)
def metadata_of_one_of_two_split_parts(folder: Path) -> None:
    write(folder, ["train/a.jpg", "train/b.jpg", "val/c.jpg"])
    write(folder, {"train/metadata.csv": "file_name,text\na.jpg,one\n"})


@layout(
    samples={"train/a": "train: jpg txt", "val/b": "val: jpg txt", "new/c": "-: jpg txt"},
    sample_type="CaptioningSample",
)
def files_next_to_split_parts_are_in_none(folder: Path) -> None:
    names = ("train/a", "val/b", "new/c")
    write(folder, [f"{name}.{ending}" for name in names for ending in ("jpg", "txt")])
