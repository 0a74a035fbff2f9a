# The public names of this package, each with the module that defines it.

from .script import (
    ProfiledLoader as ProfiledLoader,
    ScriptProfileReport as ScriptProfileReport,
    profile_script as profile_script,
)
