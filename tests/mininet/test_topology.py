# SPDX-License-Identifier: Apache-2.0
"""Topologies and rates as data: no root, no Mininet."""

from __future__ import annotations

import pytest

from controller.job import PortRef
from incmoe.demo.errors import DemoError
from incmoe.emulation.shaping import Rate
from incmoe.emulation.topology import Host, one_switch, tree


def test_ranks_lie_behind_ports_1_to_n_of_one_switch() -> None:
    topology = one_switch(3, "mtu1500", Rate(10**8))
    assert topology.hosts == (
        Host("r0", "10.0.0.1", "02:00:00:01:00:00", PortRef("s1", 1)),
        Host("r1", "10.0.0.2", "02:00:00:01:00:01", PortRef("s1", 2)),
        Host("r2", "10.0.0.3", "02:00:00:01:00:02", PortRef("s1", 3)),
    )
    assert (topology.switches, topology.cables, topology.mtu) == (("s1",), (), 1500)
    assert one_switch(2, "mtu9000", None).mtu == 9000


def test_a_tree_has_as_many_ranks_behind_each_leaf_and_all_leaves_under_a_spine() -> None:
    topology = tree(6, 2, "mtu1500", Rate(10**8))
    assert topology.switches == ("leaf1", "leaf2", "spine")
    places = [str(host.at) for host in topology.hosts]
    assert places == ["leaf1:1", "leaf1:2", "leaf1:3", "leaf2:1", "leaf2:2", "leaf2:3"]
    cables = [(str(near), str(far)) for near, far in topology.cables]
    assert cables == [("leaf1:4", "spine:1"), ("leaf2:4", "spine:2")]
    at = {name: topology.ranks_at(name) for name in topology.switches}
    assert at == {"leaf1": (0, 1, 2), "leaf2": (3, 4, 5), "spine": ()}


def test_a_rank_has_the_same_addresses_in_a_tree_as_at_one_switch() -> None:
    alone, in_tree = one_switch(4, "mtu9000", None), tree(4, 2, "mtu9000", None)
    for rank in range(4):
        assert alone.neighbours(alone.hosts[rank]) == in_tree.neighbours(in_tree.hosts[rank])


def test_a_rank_knows_the_switch_and_all_others_beforehand() -> None:
    topology = one_switch(3, "mtu1500", None)
    assert topology.neighbours(topology.hosts[1]) == {
        "10.0.0.254": "02:00:00:00:ff:fe",
        "10.0.0.1": "02:00:00:01:00:00",
        "10.0.0.3": "02:00:00:01:00:02",
    }


@pytest.mark.parametrize("num_ranks", [2, 16])
def test_the_addresses_of_all_ranks_differ(num_ranks: int) -> None:
    hosts = one_switch(num_ranks, "mtu9000", None).hosts
    for field in ("name", "ip", "mac", "at"):
        assert len({getattr(host, field) for host in hosts}) == num_ranks


@pytest.mark.parametrize("num_ranks", [1, 17])
def test_too_few_or_too_many_ranks_are_refused(num_ranks: int) -> None:
    with pytest.raises(DemoError, match=f"--ranks {num_ranks}: must be 2 to 16 in Mininet"):
        one_switch(num_ranks, "mtu9000", None)
    with pytest.raises(DemoError, match=f"--ranks {num_ranks}: must be 2 to 16 in Mininet"):
        tree(num_ranks, num_ranks, "mtu9000", None)


@pytest.mark.parametrize(
    ("text", "bit_s"), [("100mbit", 10**8), ("2.5Gbit", 25 * 10**8), ("100kbit", 10**5)]
)
def test_a_rate_is_read_with_its_unit(text: str, bit_s: int) -> None:
    assert Rate.parse(text) == Rate(bit_s)


def test_no_rate_is_a_choice() -> None:
    assert Rate.parse("none") is None


@pytest.mark.parametrize("text", ["", "100", "fast", "-1mbit", "1kbit", "1000gbit", "1e3mbit"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(DemoError, match="must be 100kbit to 100gbit, or none"):
        Rate.parse(text)


def test_a_slow_links_bucket_still_holds_two_frames_and_a_fast_ones_a_millisecond() -> None:
    slow, fast = Rate(10**6).queue(9000), Rate(10**9).queue(1500)
    assert " ".join(slow) == "tbf rate 1000000bit burst 18036 limit 8388608"
    assert " ".join(fast) == "tbf rate 1000000000bit burst 125000 limit 8388608"
