# SPDX-License-Identifier: Apache-2.0
"""Two leaves under a spine: the same program sums in a tree, by entries alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from controller.address import Endpoint, parse_ip, parse_mac
from controller.entries import job_entries
from controller.job import Job, PortRef, Rank
from controller.job import Switch as SwitchOfJob
from tests.packet.device_fixture import SHARE, Switch
from tests.packet.devices import Output
from tests.packet.messages import (
    SWITCH_IP,
    SWITCH_MAC,
    contrib,
    delivered,
    dispatch,
    mac,
    pull,
    rank_ip,
    result,
)

# ranks 0, 1 on ports 1, 2 of leaf a; ranks 2, 3 on ports 1, 2 of leaf b; ports 3 lead to the spine
LINKS = ((PortRef("a", 3), PortRef("spine", 1)), (PortRef("b", 3), PortRef("spine", 2)))
PLACES = tuple(PortRef(leaf, port) for leaf in "ab" for port in (1, 2))
MEMBERS = 0b1110
Frames = dict[PortRef, list[bytes]]


def tree_job(geometry: str) -> Job:
    own = Endpoint(parse_mac(SWITCH_MAC), parse_ip(SWITCH_IP))
    switches = {
        name: SwitchOfJob(name, "", 1, dict.fromkeys((1, 2, 3), own), None)
        for name in ("a", "b", "spine")
    }
    ranks = [
        Rank(at, Endpoint(parse_mac(mac(rank)), parse_ip(rank_ip(rank)), 20000 + rank))
        for rank, at in enumerate(PLACES)
    ]
    return Job("tree", geometry, 8, 2, tuple(ranks), switches, LINKS)


class Tree:
    """Three switches whose links are carried by hand, so that a test can lose what crosses them."""

    def __init__(self, switches: dict[str, Switch]) -> None:
        self.switches = switches
        self.crossed: Frames = {}  # what each port of a link sent
        self.lose: set[PortRef] = set()
        for name, switch in switches.items():
            switch.write(job_entries(tree_job(switch.geometry), name, SHARE))

    def run(self, rank: int, frame: bytes) -> dict[int, list[bytes]]:
        """Send a frame of a rank and return what reaches the ranks."""
        self._inject(PLACES[rank], frame)
        reached: dict[int, list[bytes]] = {}
        moved = True
        while moved:
            moved = False
            for name, switch in self.switches.items():
                for at, frames in _ports(name, switch.take_output()).items():
                    moved |= self._carry(at, frames, reached)
        return reached

    def _carry(self, at: PortRef, frames: list[bytes], reached: dict[int, list[bytes]]) -> bool:
        if at in PLACES:
            reached.setdefault(PLACES.index(at), []).extend(frames)
            return False
        self.crossed.setdefault(at, []).extend(frames)
        if at in self.lose:
            return False
        far = next(b if a == at else a for a, b in LINKS if at in (a, b))
        for frame in frames:
            self._inject(far, frame)
        return True

    def _inject(self, at: PortRef, frame: bytes) -> None:
        self.switches[at.switch].inject(at.port, frame)


def _ports(name: str, output: Output) -> Frames:
    return {PortRef(name, port): frames for port, frames in output.items()}


@pytest.fixture
def tree(make_switch: Callable[[], Switch]) -> Iterator[Tree]:
    return Tree({name: make_switch() for name in ("a", "b", "spine")})


def test_one_copy_crosses_each_link_and_one_sum_comes_back(tree: Tree) -> None:
    copies = tree.run(0, dispatch(0, members=MEMBERS))
    row = {"owner": 0, "members": MEMBERS, "ranks": MEMBERS}
    assert copies == {rank: [delivered(rank, "DISPATCH", b"row", **row)] for rank in (1, 2, 3)}
    assert tree.run(3, contrib(3, [300], flags=1)) == {}
    assert tree.run(1, contrib(1, [1])) == {}
    assert tree.run(2, contrib(2, [20], flags=2)) == {0: [result(0, [321], ranks=MEMBERS, flags=3)]}
    assert {str(at): len(frames) for at, frames in tree.crossed.items()} == {
        "a:3": 1,  # the row
        "spine:2": 1,
        "b:3": 1,  # ranks 2 and 3 as one
        "spine:1": 1,
    }


def test_a_row_stays_where_its_members_are(tree: Tree) -> None:
    assert list(tree.run(2, dispatch(2, members=0b1000))) == [3]
    assert tree.run(3, contrib(3, [5], owner=2)) == {2: [result(2, [5], ranks=0b1000)]}
    assert tree.crossed == {}


def test_a_pull_walks_down_to_what_is_missing(tree: Tree) -> None:
    tree.run(0, dispatch(0, members=MEMBERS))
    tree.run(1, contrib(1, [1]))
    tree.run(2, contrib(2, [20]))
    asked = {"owner": 0, "members": MEMBERS, "ranks": 0b1000}
    assert tree.run(0, pull(0, members=MEMBERS)) == {3: [delivered(3, "PULL", **asked)]}


def test_a_sum_lost_between_switches_is_sent_again_by_the_one_that_has_it(tree: Tree) -> None:
    tree.run(0, dispatch(0, members=MEMBERS))
    tree.run(1, contrib(1, [1]))
    tree.run(2, contrib(2, [20]))
    tree.lose = {PortRef("b", 3)}
    assert tree.run(3, contrib(3, [300])) == {}
    tree.lose = set()
    whole = result(0, [321], members=MEMBERS, ranks=MEMBERS)
    assert tree.run(0, pull(0, members=MEMBERS)) == {0: [whole]}


def test_a_set_that_overlaps_what_was_counted_is_refused(tree: Tree) -> None:
    tree.run(0, dispatch(0, members=MEMBERS))
    spine = tree.switches["spine"]
    spine.inject(2, contrib(2, [20]))
    spine.take_output()
    spine.inject(2, contrib(2, [320], ranks=0b1100))
    assert spine.take_output() == {}
    assert spine.drops() == {"COLLECTED": 1, "OVERLAP": 1}
