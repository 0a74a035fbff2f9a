"""Public data sets of medicine and other sciences, as their cards describe the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.layouts.cards_speech import tsv
from tests.layouts.layout import card, picture, write

SUBJECTS = [f"sub-{n:02d}" for n in range(1, 8)]


@card(
    samples={f"{name}/anat/{name}_T1w": "nii.gz participants.json" for name in SUBJECTS},
    holds={"sub-04/anat/sub-04_T1w": '"age":24'},
)
def bids_of_volumes(folder: Path) -> None:
    write(folder, [f"{name}/anat/{name}_T1w.nii.gz" for name in SUBJECTS])
    rows = [[name, 20 + n, "F"] for n, name in enumerate(SUBJECTS, start=1)]
    write(folder, {"participants.tsv": tsv("participant_id age sex", rows)})


@card(
    samples={f"{name}/anat/{name}_T1w": "json nii.gz participants.json" for name in SUBJECTS},
    holds={"sub-04/anat/sub-04_T1w": ('"age":24', "EchoTime")},
)
def bids(folder: Path) -> None:
    bids_of_volumes(folder)
    write(
        folder,
        {
            f"{name}/anat/{name}_T1w.json": json.dumps({"EchoTime": 0.00207, "Manufacturer": "Siemens"})
            for name in SUBJECTS
        },
    )
    write(folder, {"dataset_description.json": json.dumps({"Name": "Study", "BIDSVersion": "1.8.0", "License": "CC0"})})
    write(
        folder,
        {"participants.json": json.dumps({"age": {"Description": "age in years"}, "sex": {"Levels": {"F": "female"}}})},
    )
    write(folder, {"README": "A study of the brain.", "CHANGES": "1.0.0 2021-01-01\n  - First release\n"})


VISITS = [f"{name}/ses-{visit}/{{}}/{name}_ses-{visit}" for name in SUBJECTS[:4] for visit in ("pre", "post")]


@card(
    samples={
        f"{name.format(kind)}_{end}": f"{parts} json nii.gz participants.json sessions.json"
        for name in VISITS
        for kind, end, parts in (("anat", "T1w", ""), ("dwi", "dwi", "bval bvec"), ("func", "task-rest_bold", ""))
    },
    holds={f"{VISITS[3].format('dwi')}_dwi": ('"age":22', '"session_id":"ses-post"', '"acq_time":1903')},
)
def bids_of_sessions(folder: Path) -> None:
    for name in VISITS:
        for kind, end in (("anat", "T1w"), ("dwi", "dwi"), ("func", "task-rest_bold")):
            write(folder, [f"{name.format(kind)}_{end}.{extension}" for extension in ("nii.gz", "json")])
        write(folder, {f"{name.format('dwi')}_dwi.{extension}": "0 1000 1000" for extension in ("bval", "bvec")})
    rows = [[name, 20 + n, "F"] for n, name in enumerate(SUBJECTS[:4], start=1)]
    write(folder, {"participants.tsv": tsv("participant_id age sex", rows)})
    for n, name in enumerate(SUBJECTS[:4]):
        visits = [["ses-pre", 1801 + n], ["ses-post", 1902 + n]]
        write(folder, {f"{name}/{name}_sessions.tsv": tsv("session_id acq_time", visits)})


RUNS = [f"{name}/func/{name}_task-stop_run-{run}" for name in SUBJECTS[:4] for run in (1, 2)]
EEGS = [f"{name}/eeg/{name}" for name in SUBJECTS[:4]]


@card(
    samples={
        **{f"{run}_bold": "bold.json events.json events.tsv json nii.gz participants.json" for run in RUNS},
        **{
            f"{eeg}_task-rest_eeg": "channels.tsv coordsystem.json edf json participants.json"
            " space-captrak_electrodes.tsv"
            for eeg in EEGS
        },
        **{f"{eeg}_task-nback_beh": "participants.json tsv" for eeg in EEGS},
    },
    holds={f"{RUNS[3]}_bold": ("3\t0.5", "RepetitionTime", "FlipAngle", '"age":22', "Levels")},
)
def bids_of_tasks(folder: Path) -> None:
    participants = [[name, 20 + n, "F"] for n, name in enumerate(SUBJECTS[:4], start=1)]
    write(folder, {"participants.tsv": tsv("participant_id age sex", participants)})
    for n, run in enumerate(RUNS):
        write(folder, [f"{run}_bold.nii.gz"])
        write(folder, {f"{run}_bold.json": json.dumps({"FlipAngle": 60 + n})})
        write(folder, {f"{run}_events.tsv": tsv("onset duration", [[n, 0.5], [n + 7, 0.5]])})
    for n, eeg in enumerate(EEGS):
        write(folder, {f"{eeg}_task-rest_eeg.edf": b"0       " + eeg.encode()})
        write(folder, {f"{eeg}_task-rest_channels.tsv": tsv("name type", [["Fp1", "EEG"], ["Fp2", "EEG"]])})
        write(folder, {f"{eeg}_space-CapTrak_electrodes.tsv": tsv("name x", [["Fp1", n], ["Fp2", n + 1]])})
        write(folder, {f"{eeg}_coordsystem.json": json.dumps({"EEGCoordinateSystem": "CapTrak"})})
        write(folder, {f"{eeg}_task-nback_beh.tsv": tsv("trial response", [[1, n], [2, 0]])})
    write(
        folder,
        {
            "task-stop_bold.json": json.dumps({"RepetitionTime": 2.0}),
            "task-rest_eeg.json": json.dumps({"SamplingFrequency": 500}),
            "task-stop_events.json": json.dumps({"trial_type": {"Levels": {"go": "a stimulus"}}}),
            "dataset_description.json": json.dumps({"Name": "Study", "BIDSVersion": "1.8.0"}),
            "README": "A study of the brain.",
        },
    )


@card(samples={f"scan_{n}": "nii.gz" for n in range(4)})
def volumes_alone(folder: Path) -> None:
    write(folder, [f"scan_{n}.nii.gz" for n in range(4)])


@card(samples={f"case_{n}": "seg.npy t1.npy t2.npy" for n in range(1, 6)})
def a_folder_of_modalities_for_each_case(folder: Path) -> None:
    write(folder, [f"case_{n}/{name}.npy" for n in range(1, 6) for name in ("t1", "t2", "seg")])


PATIENTS = [f"BraTS20_Training_{n:03d}" for n in range(1, 7)]
MODALITIES = ("flair", "seg", "t1", "t1ce", "t2")


@card(
    samples={
        f"{name}/{name} | {name}": "name_mapping.json survival_info.json " + " ".join(f"{m}.nii.gz" for m in MODALITIES)
        for name in PATIENTS
    },
    holds={f"{PATIENTS[2]}/{PATIENTS[2]} | {PATIENTS[2]}": ("60.463", "TCIA_3")},
)
def brats_2020(folder: Path) -> None:
    write(folder, [f"{name}/{name}_{modality}.nii.gz" for name in PATIENTS for modality in MODALITIES])
    survival = [[name, f"6{n}.463", 289 + n, "GTR"] for n, name in enumerate(PATIENTS, start=-2)]
    write(folder, {"survival_info.csv": tsv("Brats20ID Age Survival_days Extent_of_Resection", survival, ",")})
    mapping = [["HGG", f"Brats17_{n}", f"TCIA_{n}", name] for n, name in enumerate(PATIENTS, start=1)]
    write(folder, {"name_mapping.csv": tsv("Grade BraTS_2017_ID TCGA_ID BraTS_2020_subject_ID", mapping, ",")})


SPLEENS = [f"spleen_{n}" for n in (2, 3, 6, 8, 9, 10)]


@card(
    samples={
        **{
            f"Task09_Spleen/{name} | Task09_Spleen/imagesTr/{name}": (
                "train: image.nii.gz label.nii.gz | train: nii.gz labelstr.nii.gz | train: nii.gz label.nii.gz"
            )
            for name in SPLEENS
        },
        **{
            f"Task09_Spleen/{name} | Task09_Spleen/imagesTs/{name}": "test: nii.gz | test: image.nii.gz"
            for name in ("spleen_1", "spleen_7")
        },
    },
)
def medical_segmentation_decathlon(folder: Path) -> None:
    root = "Task09_Spleen"
    write(folder, [f"{root}/{kind}/{name}.nii.gz" for name in SPLEENS for kind in ("imagesTr", "labelsTr")])
    write(folder, [f"{root}/imagesTs/{name}.nii.gz" for name in ("spleen_1", "spleen_7")])
    document = {
        "name": "Spleen",
        "modality": {"0": "CT"},
        "labels": {"0": "background", "1": "spleen"},
        "numTraining": len(SPLEENS),
        "numTest": 2,
        "training": [{"image": f"./imagesTr/{name}.nii.gz", "label": f"./labelsTr/{name}.nii.gz"} for name in SPLEENS],
        "test": [f"./imagesTs/{name}.nii.gz" for name in ("spleen_1", "spleen_7")],
    }
    write(folder, {f"{root}/dataset.json": json.dumps(document)})


def views(folder: str, count: int, suffix: str = "") -> str:
    frames = [
        {"file_path": f"{folder}/{n:04d}{suffix}", "rotation": 0.01, "transform_matrix": [[1, 0, 0, n], [0, 0, 0, 1]]}
        for n in range(count)
    ]
    return json.dumps({"camera_angle_x": 0.69, "frames": frames}, indent=4)


@card(
    samples={f"{thing}/images/{n:04d}": "json png" for thing in "abc" for n in range(5)},
    holds={"b/images/0003": ('"transform_matrix"', '"camera_angle_x":0.69')},
)
def nerf_views_of_several_things(folder: Path) -> None:
    for thing in "abc":
        write(folder, [f"{thing}/images/{n:04d}.png" for n in range(5)])
        write(folder, {f"{thing}/transforms.json": views("images", 5, ".png")})


@card(
    samples={
        f"lego/{split}/{n:04d}": f"{split}: json png"
        for split, count in (("train", 6), ("val", 3), ("test", 3))
        for n in range(count)
    },
    holds={"lego/val/0002": ('"transform_matrix"', '"camera_angle_x":0.69')},
)
def nerf_synthetic(folder: Path) -> None:
    for split, count in (("train", 6), ("val", 3), ("test", 3)):
        write(folder, [f"lego/{split}/{n:04d}.png" for n in range(count)])
        write(folder, {f"lego/transforms_{split}.json": views(f"./{split}", count)})


@card(
    samples={f"images/frame_{n:05d}": "depth_file_path.png file_path.jpg json mask_path.png" for n in range(1, 9)},
    holds={
        "images/frame_00004": ('"fl_x":10.5', '"camera_model":"OPENCV"', '"applied_transform":[[1,0,0,0],', '"k1":0.4')
    },
)
def nerfstudio(folder: Path) -> None:
    paths = {"file_path": "images/{}.jpg", "depth_file_path": "depths/{}.png", "mask_path": "masks/{}.png"}
    frames: list[dict[str, Any]] = []
    for n in range(1, 9):
        named = {field: path.format(f"frame_{n:05d}") for field, path in paths.items()}
        write(folder, {named["file_path"]: picture("JPEG", (8 + n, 6))})
        write(folder, {named[field]: picture("PNG", (8 + n, 6), "L") for field in ("depth_file_path", "mask_path")})
        frames.append({**named, "k1": n / 10, "transform_matrix": [[1, 0, 0, n], [0, 0, 0, 1]]})
    camera = {"w": 8, "h": 6, "fl_x": 10.5, "k1": 0.0, "camera_model": "OPENCV"}
    moved = {"applied_transform": [[1, 0, 0, 0], [0, 0, 1, 0]], "ply_file_path": "sparse_pc.ply"}
    write(folder, {"transforms.json": json.dumps({**camera, "frames": frames, **moved}, indent=4)})
    write(folder, {"sparse_pc.ply": "ply\nformat ascii 1.0\nend_header\n"})


def segmented(folder: Path, image: str, mask: str, kind: str) -> None:
    """Write pictures of different sizes with their masks; the names have a place for the number."""
    for n in range(6):
        size = (8 + n, 6)
        write(folder, {image.format(n): picture(kind, size), mask.format(n): picture(kind, size, "L")})


@card(samples={f"field_{n}": "masks.tif tif | masks.tif tiles.tif" for n in range(6)})
def tiles_and_masks(folder: Path) -> None:
    segmented(folder, "tiles/field_{}.tif", "masks/field_{}.tif", "TIFF")


@card(samples={f"field_{n}": "mask.tif tif" for n in range(6)})
def masks_by_suffix(folder: Path) -> None:
    segmented(folder, "field_{}.tif", "field_{}_mask.tif", "TIFF")


@card(
    samples={
        f"train/car_{n} | car_{n} | train/images/car_{n}": "gif jpg | jpg mask.gif | jpg train_masks.gif"
        for n in range(6)
    },
)
def carvana(folder: Path) -> None:
    for n in range(6):
        size = (8 + n, 6)
        write(
            folder,
            {f"train/car_{n}.jpg": picture("JPEG", size), f"train_masks/car_{n}_mask.gif": picture("GIF", size, "L")},
        )


CHESTS = [f"{1 + n // 3:08d}_{n % 3:03d}" for n in range(12)]


@card(
    samples={
        f"images_{1 + at // 6:03d}/images/{name}": (
            "test: bbox_list_2017.json? json png"
            if at >= 9
            else " | ".join(f"{s}: bbox_list_2017.json? json png" for s in ("train", "-"))
        )
        for at, name in enumerate(CHESTS)
    },
    holds={f"images_001/images/{CHESTS[4]}": "Hernia 4"},
)
def chest_xray_14(folder: Path) -> None:
    write(folder, [f"images_{1 + at // 6:03d}/images/{name}.png" for at, name in enumerate(CHESTS)])
    header = "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position"
    rows = "".join(f"{name}.png,Hernia {at}|Mass,{at % 3},{at // 3},58,M,PA\n" for at, name in enumerate(CHESTS))
    write(folder, {"Data_Entry_2017.csv": f"{header}\n{rows}"})
    boxes = "".join(f"{name}.png,Mass,225.1,547.0,86.8,79.2\n" for name in CHESTS[::4])
    write(folder, {"BBox_List_2017.csv": f"Image Index,Finding Label,Bbox [x,y,w,h]\n{boxes}"})
    for name, part in (("train_val_list", CHESTS[:9]), ("test_list", CHESTS[9:])):
        write(folder, {f"{name}.txt": "".join(f"{chest}.png\n" for chest in part)})


STUDIES = {"train": [f"patient{n:05d}" for n in range(1, 7)], "valid": ["patient64541", "patient64542"]}


@card(
    samples={
        f"{split}/{patient}/study1/{view}": f"{split.removesuffix('id')}: jpg json"
        for split, patients in STUDIES.items()
        for patient in patients
        for view in ("view1_frontal", "view2_lateral")
    },
    holds={"train/patient00003/study1/view2_lateral": "63"},
)
def chexpert(folder: Path) -> None:
    header = "Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Edema"
    for split, patients in STUDIES.items():
        views = [(patient, view) for patient in patients for view in ("view1_frontal", "view2_lateral")]
        write(folder, [f"{split}/{patient}/study1/{view}.jpg" for patient, view in views])
        rows = "".join(
            f"CheXpert-v1.0-small/{split}/{patient}/study1/{view}.jpg,Female,6{patient[-1]},Frontal,AP,1.0,\n"
            for patient, view in views
        )
        write(folder, {f"{split}.csv": f"{header}\n{rows}"})


LESIONS = [f"ISIC_{27419 + n:07d}" for n in range(8)]


@card(samples=dict.fromkeys(LESIONS, "jpg json"), holds={LESIONS[5]: ("HAM_0000002", "scalp 5")})
def ham_10000(folder: Path) -> None:
    write(folder, [f"HAM10000_images_part_{1 + at // 4}/{name}.jpg" for at, name in enumerate(LESIONS)])
    rows = [
        [f"HAM_{at // 2:07d}", name, "bkl", "histo", 80.0 + at, "male", f"scalp {at}"]
        for at, name in enumerate(LESIONS)
    ]
    write(folder, {"HAM10000_metadata.csv": tsv("lesion_id image_id dx dx_type age sex localization", rows, ",")})


FIELDS = [f"{name}/{name}_{n}" for name in ("AnnualCrop", "Forest") for n in range(1, 6)]
FIELD_SPLITS = {
    "train": FIELDS[0:3] + FIELDS[5:8],
    "validation": FIELDS[3:4] + FIELDS[8:9],
    "test": FIELDS[4:5] + FIELDS[9:],
}


@card(
    samples={
        name: " | ".join(f"{split.removesuffix('idation')}: cls jpg {rest}" for rest in ("json", "txt json?"))
        for split, names in FIELD_SPLITS.items()
        for name in names
    },
    holds={"Forest/Forest_4": "Forest"},
)
def eurosat(folder: Path) -> None:
    write(folder, [f"{name}.jpg" for name in FIELDS])
    for split, names in FIELD_SPLITS.items():
        rows = "".join(
            f"{n},{name}.jpg,{int('Forest' in name)},{name.partition('/')[0]}\n" for n, name in enumerate(names)
        )
        write(folder, {f"{split}.csv": f",Filename,Label,ClassName\n{rows}"})
    write(folder, {"label_map.json": json.dumps({"AnnualCrop": 0, "Forest": 1})})


@card(
    samples={
        f"frames/{clip}/frame_{n:04d} | {clip}/frame_{n:04d}": "jpg labels.json"
        for clip in ("v_1", "v_2", "v_3")
        for n in range(4)
    },
    holds={"frames/v_2/frame_0001 | v_2/frame_0001": "Archery"},
)
def frames_of_clips(folder: Path) -> None:
    write(folder, [f"frames/{clip}/frame_{n:04d}.jpg" for clip in ("v_1", "v_2", "v_3") for n in range(4)])
    rows = [["v_1", "Biking", 4], ["v_2", "Archery", 4], ["v_3", "Diving", 4]]
    write(folder, {"labels.csv": tsv("clip action frames", rows, ",")})
