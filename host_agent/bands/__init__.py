# SPDX-License-Identifier: Apache-2.0
"""A rank's tokens cut into bands, and the header from which all ranks derive one routing table."""

from host_agent.bands.codec import (
    MAX_TOP_K,
    BandError,
    BandHeader,
    Kind,
    RowType,
    decode,
    encode,
)
from host_agent.bands.physical import PhysicalExperts
from host_agent.bands.placement import Placement, PlacementError
from host_agent.bands.planner import planned
from host_agent.bands.table import Pairs, bands_of, local_pairs, wanted

__all__ = [
    "MAX_TOP_K",
    "BandError",
    "BandHeader",
    "Kind",
    "Pairs",
    "PhysicalExperts",
    "Placement",
    "PlacementError",
    "RowType",
    "bands_of",
    "decode",
    "encode",
    "local_pairs",
    "planned",
    "wanted",
]
