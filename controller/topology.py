# SPDX-License-Identifier: Apache-2.0
"""Which ranks lie behind which port of a tree of switches. Pure; the tree is checked once."""

from __future__ import annotations

from collections import Counter

from controller.errors import JobFileError
from controller.job import Job, PortRef


def check_topology(job: Job) -> None:
    """Raise JobFileError unless every port has one use and the switches form a tree."""
    ends = [end for link in job.links for end in link]
    for port, uses in Counter([*ends, *(rank.at for rank in job.ranks)]).items():
        if uses > 1:
            raise JobFileError("ranks, links", f"port {port} is used {uses} times")
    reached = _reachable(job, next(iter(job.switches)))
    for name in job.switches:
        if name not in reached:
            raise JobFileError("links", f"switch {name} is not linked to the others")
    if len(job.links) != len(job.switches) - 1:
        problem = f"{len(job.links)} links between {len(job.switches)} switches make a loop"
        raise JobFileError("links", problem)


def rank_ports(job: Job, switch: str) -> dict[int, int]:
    """Return the ranks attached to `switch`, by port."""
    attached = [(rank.at, number) for number, rank in enumerate(job.ranks)]
    return {at.port: number for at, number in sorted(attached) if at.switch == switch}


def link_ports(job: Job, switch: str) -> dict[int, PortRef]:
    """Return the far ends of the links of `switch`, by port."""
    both = [*job.links, *((far, near) for near, far in job.links)]
    return {near.port: far for near, far in sorted(both) if near.switch == switch}


def ranks_behind(job: Job, switch: str) -> dict[int, frozenset[int]]:
    """Return the ranks reached through each port of `switch`, ports without any left out."""
    attached = {port: frozenset([rank]) for port, rank in rank_ports(job, switch).items()}
    linked = {port: _beyond(job, far) for port, far in link_ports(job, switch).items()}
    return {port: ranks for port, ranks in sorted({**attached, **linked}.items()) if ranks}


def _beyond(job: Job, entry: PortRef) -> frozenset[int]:
    """Return the ranks of the subtree that is entered at `entry`."""
    ranks = set(rank_ports(job, entry.switch).values())
    for port, far in link_ports(job, entry.switch).items():
        if port != entry.port:
            ranks |= _beyond(job, far)
    return frozenset(ranks)


def _reachable(job: Job, start: str) -> set[str]:
    found, new = {start}, [start]
    while new:
        linked = {far.switch for far in link_ports(job, new.pop()).values()} - found
        found |= linked
        new += linked
    return found
