# SPDX-License-Identifier: Apache-2.0
"""Makes the backend known to torch.distributed; imports nothing before it is asked to.

torch loads this module at the end of its own import (entry point torch.backends), perhaps while
whoever imports host_agent.c10d is waiting for just that import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

NAME: Final = "inc"


def register() -> None:
    """Register the backend; may be called again."""
    from torch import distributed

    if distributed.is_available() and NAME not in distributed.Backend.backend_list:
        distributed.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])


def _create(options: Any, _: object) -> ProcessGroup:
    """Make a group; imports what a process that makes none need not have."""
    from host_agent.c10d.process_group import InNetworkProcessGroup

    return InNetworkProcessGroup(
        options.store, options.group_rank, options.group_size, options.timeout
    )
