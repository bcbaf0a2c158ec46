# SPDX-License-Identifier: Apache-2.0
"""The backend "inc" of torch.distributed. Importing it registers it, and nothing more.

    import host_agent.c10d
    torch.distributed.init_process_group("inc")

docs/integrations/torch-distributed.md has the rest.
"""

from host_agent.c10d.registration import NAME, register

__all__ = ["NAME", "register"]

register()
