# SPDX-License-Identifier: Apache-2.0
"""Control-plane state: entries, default actions, action profiles, multicast groups, clone sessions,
value sets, digests wanted, links that are down; it touches no packet.
"""

from softswitch.state.checks import MAX_SESSION, wildcard
from softswitch.state.control import ControlState
from softswitch.state.snapshot import (
    ActionGroup,
    ActionSet,
    Choice,
    CloneSession,
    DigestConfig,
    Entry,
    EntryKey,
    ProfileState,
    Replica,
    Snapshot,
    TableState,
    UseGroup,
    UseMember,
    Weighted,
    initial,
)
from softswitch.state.updates import (
    ActionGroupUpdate,
    Change,
    DefaultUpdate,
    DigestUpdate,
    EntryUpdate,
    GroupUpdate,
    LinksUpdate,
    MemberUpdate,
    SessionUpdate,
    Update,
    ValueSetUpdate,
)

__all__ = [
    "MAX_SESSION",
    "ActionGroup",
    "ActionGroupUpdate",
    "ActionSet",
    "Change",
    "Choice",
    "CloneSession",
    "ControlState",
    "DefaultUpdate",
    "DigestConfig",
    "DigestUpdate",
    "Entry",
    "EntryKey",
    "EntryUpdate",
    "GroupUpdate",
    "LinksUpdate",
    "MemberUpdate",
    "ProfileState",
    "Replica",
    "SessionUpdate",
    "Snapshot",
    "TableState",
    "Update",
    "UseGroup",
    "UseMember",
    "ValueSetUpdate",
    "Weighted",
    "initial",
    "wildcard",
]
