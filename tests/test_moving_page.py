"""Every statement of the page about moving is checked: by a fact of a script, by a test, or it is advice.

Facts of ``compat/scripts`` claim sentences by ``DIFFERS`` and ``PROVES``; `CHECKED_BY` lists the other checks.
"""

# ruff: noqa: E501 - a row of the table is one line

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.interop.moving_page import PAGE, SCRIPTS, claims_of, joined, statements

TESTS = Path(__file__).parent

CHECKED_BY = {
    # beginning of a sentence → function of a script or test
    "Training code written for megatron-energon runs on this library": "unit/compat/test_megatron_energon.py::test_every_submodule_reexports_the_objects_of_loader",
    "| the call | `get_train_dataset(…, key_format": "interop/compat/scripts/bare_keys.py::keys_of_training",
    "| the environment, for code": "e2e/test_key_format.py::test_argument_beats_file_beats_environment",
    "Look-ups by key need no edit": "interop/compat/scripts/keys_of_samples.py::look_ups_in_stores",
    "| `energon prepare --non-interactive` on a dataset": "cli/test_prepare.py::test_a_dataset_that_is_up_to_date_is_no_error",
    "| which worker reads which samples": "property/test_small_sources.py::test_samples_of_a_small_source_come_in_one_order_for_all_batch_sizes",
    "| `AggregatorPool` |": "unit/compat/test_names_of_public_code.py::test_a_pool_works_on_tasks_that_its_aggregator_adds_and_raises_their_errors",
    "1. **Install only one of the two": "e2e/test_wheel.py::test_one_folder_with_both_is_refused_until_it_is_mended",
    "2. **Run `energon --version`.**": "e2e/test_wheel.py::test_an_original_that_was_installed_later_is_told_of",
    "3. **Keep your own `loader.py`.**": "e2e/test_own_loader.py::test_the_library_and_the_commands_work",
    "4. **Keep the data.**": "interop/test_typed_datasets.py::test_our_lint_finds_nothing_wrong_in_the_peers",
    "8. **Inspect the result**": "interop/test_typed_datasets.py::test_our_preview_shows_the_peers",
    "- the names that training code uses": "unit/compat/test_census.py::test_each_lacking_name_has_a_reason",
    "- the submodules that code imports them from": "unit/compat/test_megatron_energon.py::test_training_code_finds_what_it_imports",
    "- `rng`, `fork_hook`": "interop/compat/scripts/names_and_utilities.py::documents",
    "| 16 or 32 bits a channel |": "unit/samples/decoding/test_image_decode.py::test_16_bits_scale_to_8_bits_and_to_floats",
    "| floats | refused": "unit/samples/decoding/test_image_decode.py::test_floats_are_refused_or_scaled_by_a_range",
    '| `image_decode="pil"` |': "unit/samples/decoding/test_image_decode.py::test_pil_keeps_a_picture_as_its_file_has_it",
    "| AVIF, HEIC, JPEG XL |": "unit/samples/decoding/test_image_decode.py::test_avif_decodes_with_pillow",
    "8-bit pictures and alpha are equal.": "unit/samples/decoding/test_image_decode.py::test_every_image_decodes_as_in_webdataset_in_every_form",
    "- `transforms`, which": "unit/compat/test_transforms.py::test_own_transforms_need_no_torchvision",
    "- `EPath` of a URL with credentials": "unit/storage/test_epath.py::test_a_path_holds_no_credentials",
    "- `EPath`: writing": "interop/compat/scripts/names_and_utilities.py::paths",
    "| `get_train_dataset`, `get_val_dataset`": "unit/compat/test_megatron_energon.py::test_the_signature_of_a_run_requires_the_configuration_of_workers",
    "| `shuffle_buffer_size` | costs integers": "unit/order/test_order_values.py::test_the_order_of_a_billion_samples_needs_no_memory",
    "| `__key__` |": "interop/compat/scripts/keys_of_samples.py::keys",
    "| passes that end": "interop/compat/scripts/passes_and_lengths.py::validation_with_each_kind_of_hook",
    "| `len()` of a pass |": "interop/compat/scripts/passes_and_lengths.py::lengths_of_plain_passes_on_two_workers",
    "| a recipe edited after a checkpoint |": "e2e/test_edited_mixes.py::test_each_sample_of_a_packed_blend_that_is_edited_twice_is_followed",
    "| `worker_debug_path` |": "interop/test_debug_files.py::test_analyze_debug_counts_the_samples",
    'With `key_format="key"`, `batch.__key__[0]`': "interop/compat/scripts/bare_keys.py::keys_of_batches",
    "- Endings of parts match in any case here": "unit/samples/decoding/test_part_decode.py::test_upper_case_names_decode_like_lower_case_ones",
    "- `ConversationSample`, with": "unit/samples/building/test_conversation_sample.py::test_megatron_energon_has_no_such_type",
    "- The join index of megatron-energon": "unit/metadataset/joins/test_peer_index.py::test_a_file_of_another_split_part_is_not_used",
    "- Numbers of sample types": "interop/test_same_files.py::test_numbers_of_sample_types",
    "`SystemRng` and `WorkerRng` exist": "interop/compat/scripts/names_and_utilities.py::worker_generator",
    "Other internals of megatron-energon": "unit/compat/test_megatron_energon.py::test_an_unknown_name_is_an_attribute_error",
    "Subclasses of `SavableDataset` and `BaseWrapperDataset`": "interop/compat/scripts/own_datasets.py::a_wrapper_in_the_middle",
    "- `FlexState` is an ordinary dict.": "interop/compat/scripts/own_datasets.py::pairs_resume",
    "A run is divided into [lanes]": "unit/training/states/test_split_state.py::test_numbers_of_ranks_that_the_lanes_do_not_allow_are_refused",
    "| `worker_config` | stages such as": "unit/pipeline/test_stage_table.py::test_the_worker_config_is_by_default_that_of_the_first_input",
    "`pip install` of a project that requires": "e2e/test_shim.py::test_it_has_no_code",
    "Afterwards pip counts the requirement": "e2e/test_shim.py::test_programs_that_ask_for_the_version_of_megatron_energon_get_one",
    "| in one folder |": "e2e/test_wheel.py::test_one_folder_with_both_is_refused_until_it_is_mended",
    "| megatron-energon installed last": "e2e/test_wheel.py::test_an_original_that_was_installed_later_is_told_of",
    "| in different folders of `sys.path` |": "e2e/test_wheel.py::test_an_original_elsewhere_is_warned_of_with_the_one_that_is_in_force",
}  # fmt: skip

ADVICE = {
    "6. **Start new runs.**": "what to do; the row of states is checked",
    "7. **Search your code**": "what to do",
    'The column "there"': "how to read the table",
    "| batches, cookers, encoders |": "a link; that page's differences have facts in hook_combinations",
    "They are accepted, so that you need not edit calls.": "introduces the table, whose rows are checked",
}


def checked_sentences() -> set[str]:
    return {
        sentence
        for script in SCRIPTS
        for kind in claims_of(script).values()
        for one in kind.values()
        for sentence in one
    }


def test_every_statement_is_checked() -> None:
    known = {*checked_sentences(), *map(joined, CHECKED_BY), *ADVICE}
    unchecked = [statement for statement in statements(PAGE.read_text()) if not any(one in statement for one in known)]
    assert not unchecked, "add a fact to compat/scripts, or a line to CHECKED_BY"


@pytest.mark.parametrize("beginning", [*CHECKED_BY, *ADVICE])
def test_a_listed_statement_is_on_the_page(beginning: str) -> None:
    assert any(statement.startswith(beginning) for statement in statements(PAGE.read_text()))


@pytest.mark.parametrize("check", sorted(set(CHECKED_BY.values())))
def test_a_listed_check_exists(check: str) -> None:
    path, _, name = check.partition("::")
    assert re.search(rf"^def {name}\(", (TESTS / path).read_text(), re.MULTILINE)


def test_every_sentence_that_a_fact_claims_is_on_the_page() -> None:
    page = joined(PAGE.read_text())
    assert not [sentence for sentence in checked_sentences() if sentence not in page]


def test_statements_are_rows_items_and_paragraphs() -> None:
    text = "# Title\n\nOne\nsentence.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\n- x\n  y\n- z\n\n```text\ncode\n```\n"
    assert statements(text) == ["One sentence.", "| 1 | 2 |", "| 3 | 4 |", "- x y", "- z"]
