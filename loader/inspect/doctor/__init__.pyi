# The public names of this package, each with the module that defines it.

from .checkup import (
    Advice as Advice,
    Checkup as Checkup,
    Installed as Installed,
    examine_machine as examine_machine,
    read_packages as read_packages,
)
from .machine import (
    Disk as Disk,
    Limits as Limits,
    read_limits as read_limits,
)
