# SPDX-License-Identifier: Apache-2.0
"""The physical experts that the trained model's rows go to, copies of busy ones among them.

Text prefers some experts, and those of one rank then fill its link while others idle.
Legend: N ranks, T tokens of a rank, K experts per token.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.collectives.plan import EARLIER, Plan
from bench.collectives.routing import Routes
from bench.collectives.trained import trained
from host_agent.bands import PhysicalExperts, planned


def trained_routes(plan: Plan) -> Routes:
    """Return the routes of the trained model's tokens, copies being planned as the plan says."""
    found = trained(plan)
    seen = found.earlier if plan.planned_on == EARLIER else found.measured
    return routed(found.measured, planned(seen, found.num_experts, plan.num_redundant))


def routed(ids_NTK: NDArray[np.int32], physical: PhysicalExperts) -> Routes:
    """Return the routes of logical ids, as every owner chooses copies."""
    chosen = [physical.chosen(ids_TK, owner) for owner, ids_TK in enumerate(ids_NTK)]
    return Routes(np.stack(chosen), physical.placement)
