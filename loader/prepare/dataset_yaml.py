"""Write the text of ``dataset.yaml`` and of the ``sample_loader.py`` that a user completes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..format.documents.dataset_config import OWN_MODULE, DatasetConfig
from ..format.documents.field_map import parse_field_expression, parse_field_map
from ..format.documents.sample_types import SampleTypeSpec
from ..own_names import CANONICAL
from .contents.sample_layouts import string_literal

SAMPLE_LOADER = "sample_loader.py"

_TEMPLATE = '''\
"""Fill the fields of {type_name} from the parts of a sample.

Written by `energon prepare` for you to edit. Training code runs it with `trust_code=True`; `energon preview` and
`energon lint` run it with `--trust-code`.
"""


def part_filter(part_name: str) -> bool:
    """Return True for parts that are needed; the others are neither read nor decoded."""
    return part_name in {part_names}


def sample_loader(parts: dict) -> dict:
    """Return the fields of one sample.

    Args:
        parts: The decoded parts by name; `parts["__key__"]` is the sample's key.
    """
    return {{
{fields}
    }}
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetYaml:
    """Content of a ``dataset.yaml`` to write."""

    spec: SampleTypeSpec
    # expression of each field; None writes a ``sample_loader.py`` for the user to complete
    field_map: Mapping[str, str] | None = None


def dataset_config_of(choice: DatasetYaml) -> DatasetConfig:
    """Return the dataset configuration of a choice."""
    if choice.spec.crude:
        return DatasetConfig(sample_type=choice.spec.name, crude=True)
    module = OWN_MODULE if choice.spec.shared else CANONICAL  # a name that megatron-energon does not take for its own
    if choice.field_map is not None:
        field_map = parse_field_map(dict(choice.field_map), file="the field map")
        return DatasetConfig(sample_type=choice.spec.name, module=module, field_map=field_map)
    return DatasetConfig(
        sample_type=choice.spec.name,
        module=module,
        sample_loader=f"{SAMPLE_LOADER}:sample_loader",
        part_filter=f"{SAMPLE_LOADER}:part_filter",
    )


def sample_loader_text(spec: SampleTypeSpec, proposals: Mapping[str, str], part_names: Sequence[str]) -> str:
    """Return the text of a ``sample_loader.py``; it is complete if every required field has a proposal.

    Args:
        proposals: Proposed field-map expressions, field → expression.
    """
    lines = []
    used: list[str] = []
    for field in spec.fields:
        proposal = proposals.get(field.name)
        remark = f"{field.kind.replace('_', ' ')}{'' if field.required else ', optional'}"
        if proposal is None:
            prefix = "" if field.required else "# "
            part = part_names[0] if part_names else "jpg"
            lines.append(
                f'        {prefix}"{field.name}": parts[{string_literal(part)}],  # {remark}: replace by the right part'
            )
            continue
        access = parse_field_expression(proposal)[0]
        used.append(access.part)
        steps = (string_literal(step) if isinstance(step, str) else step for step in (access.part, *access.path))
        path = "".join(f"[{step}]" for step in steps)
        lines.append(f'        "{field.name}": parts{path},  # {remark}')
    # An incomplete loader keeps all parts: a part that the user adds must not be dropped by part_filter.
    complete = all(name in proposals for name in spec.required)
    wanted = sorted(set(used) if complete and used else set(part_names))
    names = f"{{{', '.join(map(string_literal, wanted))}}}" if wanted else "set()"
    return _TEMPLATE.format(type_name=spec.name, part_names=names, fields="\n".join(lines))
