# SPDX-License-Identifier: Apache-2.0
"""Why a packet went no further; P4 twin: p4src/include/drops.p4, held equal by a test."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Drop(IntEnum):
    """Index of the counter `drops`."""

    NONE = 0
    NO_JOB = 1
    STALE_GENERATION = 2
    WRONG_PORT = 3
    NO_SLOT = 4
    UNKNOWN_OP = 5
    TRUNCATED = 6
    WRONG_VERSION = 7
    BAD_CHECKSUM = 8
    STALE_SEQ = 9
    NOT_ARMED = 10
    NOT_MEMBER = 11
    REPEATED = 12
    WRONG_LENGTH = 13
    NO_MEMBERS = 14
    COLLECTED = 15
    NO_ROUTE = 16
    EXPIRED = 17
    OVERLAP = 18
    SPOOFED = 19
    FAULT = 20


# Packets that are consumed, or were sent twice to be safe: the protocol at work, no fault.
EXPLAINED: Final = frozenset({Drop.COLLECTED, Drop.REPEATED})
