# SPDX-License-Identifier: Apache-2.0
"""A soak of seconds: harmed, gone on, exact; and growth that is found where there is some."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from bench.soak.__main__ import figures
from bench.soak.faults import Draw
from bench.soak.plan import KILL, KINDS, Plan
from bench.soak.run import soak
from bench.soak.watch import Sample, Watch
from incmoe.demo.plan import LOOPBACK

# The first fault that this seed draws without links that can go down is the death of a rank.
PLAN = Plan(minutes=0.1, num_ranks=3, calls_s=10, every_s=2.0, deadline_s=2.0, seed=5)


def test_a_killed_rank_comes_back_and_every_sum_is_exact() -> None:
    outcome = soak(PLAN, LOOPBACK, lambda _: None)
    assert outcome.wrong_sums == 0
    assert outcome.rows > 0
    assert outcome.faults[KILL] >= 1
    assert outcome.failures["RankLost"] >= 1
    assert len(outcome.generations) >= 2
    assert outcome.counts["pulls"] > 0
    named = {one.name for one in figures(outcome)}
    assert {"wrong_sums", "rss_growth_switch", "fd_growth_controller", "longest_gap"} <= named


def test_faults_are_the_same_for_the_same_seed() -> None:
    first, again, other = (Draw(replace(PLAN, seed=s), can_flap=True) for s in (1, 1, 2))
    drawn = [first.next() for _ in range(50)]
    assert drawn == [again.next() for _ in range(50)]
    assert drawn != [other.next() for _ in range(50)]
    assert {fault.kind for _, fault in drawn} == set(KINDS)
    assert all(fault.rank != 0 for _, fault in drawn if fault.kind == KILL)


def life(rss_kib: list[int]) -> Watch:
    watch = Watch()
    samples = [Sample(float(i), rss, fds=7, threads=2) for i, rss in enumerate(rss_kib)]
    watch._lives["one", 1] = samples
    return watch


def test_growth_is_found_and_warming_up_is_none() -> None:
    flat = life([100, 500, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000]).growth(
        "one"
    )
    grows = life(list(range(1000, 2200, 100))).growth("one")
    assert flat is not None
    assert (flat.rss_kib, flat.fds) == (0, 0)
    assert grows is not None
    assert grows.rss_kib == 600
    assert grows.rss_share == pytest.approx(600 / 1400)


def test_a_process_that_is_gone_is_left_out() -> None:
    watch = Watch()
    watch.look("me", os.getpid(), 0.0)
    watch.look("nobody", 2**22 + 1, 0.0)
    assert len(watch.longest("me")) == 1
    assert watch.longest("nobody") == []
    assert watch.growth("nobody") is None
