# The public names of this package, each with the module that defines it.

from .checkup import (
    Advice as Advice,
    Checkup as Checkup,
    examine_machine as examine_machine,
)
from .machine import (
    Disk as Disk,
    Limits as Limits,
    read_limits as read_limits,
)
from .packages import (
    Installed as Installed,
    read_packages as read_packages,
)
