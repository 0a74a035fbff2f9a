"""The text of the files that ``energon prepare`` leaves for the user: ``dataset.yaml`` and ``sample_loader.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loader.format.documents.dataset_config import DatasetConfig, format_dataset_config
from loader.format.documents.field_map import parse_field_expression, parse_field_map
from loader.format.documents.sample_types import SampleTypeSpec

from .choices import DatasetYaml

__all__ = ["SAMPLE_LOADER", "dataset_config_of", "files_to_write", "sample_loader_text"]

SAMPLE_LOADER = "sample_loader.py"

_TEMPLATE = '''\
"""The fields of {type_name}, made from the parts of a sample.

Written by `energon prepare`; yours to edit. Training code runs it where it is allowed to (`trust_code=True`), and so
do `energon preview --trust-code` and `energon lint --trust-code`.
"""


def part_filter(part_name: str) -> bool:
    """Tell which parts are needed; the others are neither read nor decoded."""
    return part_name in {part_names}


def sample_loader(parts: dict) -> dict:
    """Give the fields of one sample.

    Args:
        parts: The decoded parts by name; `parts["__key__"]` is the sample's key.
    """
    return {{
{fields}
    }}
'''


def dataset_config_of(choice: DatasetYaml) -> DatasetConfig:
    """Give what the choice comes to, as the library knows it."""
    if choice.spec.crude:
        return DatasetConfig(sample_type=choice.spec.name, crude=True)
    if choice.field_map is not None:
        field_map = parse_field_map(dict(choice.field_map), file="the field map")
        return DatasetConfig(sample_type=choice.spec.name, field_map=field_map)
    return DatasetConfig(
        sample_type=choice.spec.name,
        sample_loader=f"{SAMPLE_LOADER}:sample_loader",
        part_filter=f"{SAMPLE_LOADER}:part_filter",
    )


def files_to_write(
    choice: DatasetYaml, *, name: str, proposals: Mapping[str, str], part_names: Sequence[str]
) -> dict[str, str]:
    """Give the files of ``.nv-meta`` that say what the samples are.

    Args:
        choice: What was decided.
        name: The name for ``dataset.yaml``.
        proposals: Where fields may come from, to start a ``sample_loader.py`` with.
        part_names: Part names seen.
    """
    files = {name: format_dataset_config(dataset_config_of(choice))}
    if choice.field_map is None and not choice.spec.crude:
        files[SAMPLE_LOADER] = sample_loader_text(choice.spec, proposals, part_names)
    return files


def sample_loader_text(spec: SampleTypeSpec, proposals: Mapping[str, str], part_names: Sequence[str]) -> str:
    """Write a ``sample_loader.py`` that runs where every required field has a proposal, else says what is missing.

    Args:
        spec: The sample type.
        proposals: A field-map expression for each field where one suggests itself.
        part_names: Part names seen.
    """
    lines = []
    used: list[str] = []
    for field in spec.fields:
        proposal = proposals.get(field.name)
        remark = f"{field.kind.replace('_', ' ')}{'' if field.required else ', may be left out'}"
        if proposal is None:
            prefix = "" if field.required else "# "
            part = part_names[0] if part_names else "jpg"
            lines.append(f'        {prefix}"{field.name}": parts["{part}"],  # {remark}: put in the right part')
            continue
        access = parse_field_expression(proposal)[0]
        used.append(access.part)
        path = "".join(f"[{step!r}]" for step in (access.part, *access.path)).replace("'", '"')
        lines.append(f'        "{field.name}": parts{path},  # {remark}')
    # Whoever puts in a part must not have to find out that part_filter left it out.
    complete = all(name in proposals for name in spec.required)
    wanted = sorted(set(used) if complete and used else set(part_names))
    names = "{" + ", ".join(f'"{name}"' for name in wanted) + "}" if wanted else "set()"
    return _TEMPLATE.format(type_name=spec.name, part_names=names, fields="\n".join(lines))
