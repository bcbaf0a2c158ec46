# SPDX-License-Identifier: Apache-2.0
"""Control-plane state: entries, default actions, multicast groups, value sets; it touches no
packet.
"""

from softswitch.state.checks import wildcard
from softswitch.state.control import ControlState
from softswitch.state.snapshot import Entry, EntryKey, Replica, Snapshot, TableState, initial
from softswitch.state.updates import (
    Change,
    DefaultUpdate,
    EntryUpdate,
    GroupUpdate,
    Update,
    ValueSetUpdate,
)

__all__ = [
    "Change",
    "ControlState",
    "DefaultUpdate",
    "Entry",
    "EntryKey",
    "EntryUpdate",
    "GroupUpdate",
    "Replica",
    "Snapshot",
    "TableState",
    "Update",
    "ValueSetUpdate",
    "initial",
    "wildcard",
]
