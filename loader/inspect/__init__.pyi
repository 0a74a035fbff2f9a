# The public names of this package, each with the module that defines it.

from .broken_samples import (
    ExcludedSamples as ExcludedSamples,
    ExclusionAdvice as ExclusionAdvice,
    exclude_broken as exclude_broken,
    exclusion_advice as exclusion_advice,
)
from .browse.page_document import sample_document as sample_document
from .doctor import (
    Advice as Advice,
    Checkup as Checkup,
    Disk as Disk,
    Installed as Installed,
    Limits as Limits,
    examine_machine as examine_machine,
    read_limits as read_limits,
    read_packages as read_packages,
)
from .exclusions import (
    ExcludeReport as ExcludeReport,
    ExcludeRequest as ExcludeRequest,
    ListedExclusions as ListedExclusions,
    exclude as exclude,
    list_exclusions as list_exclusions,
    undo_last_exclusion as undo_last_exclusion,
)
from .extract import (
    FoundSample as FoundSample,
    ListedParts as ListedParts,
    SampleFinder as SampleFinder,
    find_samples_of as find_samples_of,
    open_sample as open_sample,
    write_parts as write_parts,
)
from .facts import (
    dataset_facts as dataset_facts,
    kind_of_path as kind_of_path,
    path_facts as path_facts,
    tar_facts as tar_facts,
)
from .facts_of_media import media_facts as media_facts, media_folder_facts as media_folder_facts
from .fields import (
    FieldView as FieldView,
    describe_part as describe_part,
    describe_value as describe_value,
)
from .folder_views import SampleViews as SampleViews
from .lint import (
    LintRequest as LintRequest,
    find_rule as find_rule,
    rule_groups as rule_groups,
    run_lint as run_lint,
)
from .metadataset import metadataset_facts as metadataset_facts
from .mount import (
    Entry as Entry,
    MountedTree as MountedTree,
    Naming as Naming,
    open_tree as open_tree,
    serve_tree as serve_tree,
)
from .prepare.choices import (
    Choices as Choices,
    OpenChoices as OpenChoices,
    asked_shares as asked_shares,
    choice_files as choice_files,
    choice_notes as choice_notes,
    misses_ratio as misses_ratio,
    propose_choices as propose_choices,
    resolved_fields as resolved_fields,
    view_first_sample as view_first_sample,
)
from .prepare.field_question import (
    FieldQuestion as FieldQuestion,
    check_field as check_field,
    complete_field as complete_field,
    field_hint as field_hint,
)
from .prepare.sampled_contents import (
    SampledContents as SampledContents,
    ShardFolder as ShardFolder,
    contents_of_scan as contents_of_scan,
    coverage_warnings as coverage_warnings,
    field_map_warnings as field_map_warnings,
    inspect_folder as inspect_folder,
)
from .profile import (
    ProfiledLoader as ProfiledLoader,
    ScriptProfileReport as ScriptProfileReport,
    profile_script as profile_script,
)
from .report import print_part_sets as print_part_sets, print_table as print_table, show_facts as show_facts
from .sample_view import (
    PreviewRequest as PreviewRequest,
    SampleView as SampleView,
    describe_parts as describe_parts,
    describe_sample as describe_sample,
)
from .text import (
    format_bytes as format_bytes,
    format_percent as format_percent,
    plural as plural,
    requests_text as requests_text,
)
from .views import open_views as open_views
