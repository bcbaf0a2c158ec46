# SPDX-License-Identifier: Apache-2.0
"""Dispatch and combine, AllGather and ReduceScatter, of tensors through the switch."""

from host_agent.collectives.dispatch import Dispatch, Part, Routing, Unit
from host_agent.collectives.fabric import Fabric
from host_agent.collectives.geometry import Geometry, GeometryError
from host_agent.collectives.group import Group, GroupError, Layout
from host_agent.collectives.static import all_gather, reduce_scatter

__all__ = [
    "Dispatch",
    "Fabric",
    "Geometry",
    "GeometryError",
    "Group",
    "GroupError",
    "Layout",
    "Part",
    "Routing",
    "Unit",
    "all_gather",
    "reduce_scatter",
]
