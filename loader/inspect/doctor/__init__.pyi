# The public names of this package, each with the module that defines it.

from .checkup import (
    Advice as Advice,
    Checkup as Checkup,
    Disk as Disk,
    Installed as Installed,
    Limits as Limits,
    examine_machine as examine_machine,
    read_limits as read_limits,
    read_packages as read_packages,
)
