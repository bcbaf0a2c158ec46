# SPDX-License-Identifier: Apache-2.0
"""The backend "inc" of torch.distributed. Importing it registers it, and nothing more.

    import host_agent.c10d
    torch.distributed.init_process_group("inc")

docs/integrations/torch-distributed.md has the rest.
"""

from __future__ import annotations

from typing import Any, Final

from torch import distributed as dist

NAME: Final = "inc"


def register() -> None:
    """Make the backend known to torch.distributed; may be called again."""
    if dist.is_available() and NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])


def _create(options: Any, _: object) -> dist.ProcessGroup:
    """Make a group; imports what a process that makes none need not have."""
    from host_agent.c10d.process_group import InNetworkProcessGroup

    return InNetworkProcessGroup(
        options.store, options.group_rank, options.group_size, options.timeout
    )


register()
