# SPDX-License-Identifier: Apache-2.0
"""The baselines of bench.collectives over loopback, and its byte model; no namespaces."""

import argparse
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from bench.collectives.__main__ import schemes_named
from bench.collectives.all_to_all import AllToAll
from bench.collectives.balance import routed
from bench.collectives.figures import busiest_bytes, figures, model_bytes
from bench.collectives.links import Moved
from bench.collectives.mesh import Mesh
from bench.collectives.plan import ALL_TO_ALL, MPI, RING, ROUTED, STATIC, TRAINED, Plan
from bench.collectives.ring import Ring
from bench.collectives.routing import Routes, routes_of
from bench.collectives.run import Outcome, Sample
from bench.collectives.tensors import Tensors, must_be_equal, rows_of
from bench.collectives.trained import trained
from host_agent.bands import Placement, PlacementError, planned
from incmoe.demo.errors import DemoError

PLAN = Plan(num_ranks=3, tokens=5, hidden=24, schemes=(STATIC, ROUTED, RING, ALL_TO_ALL))


@pytest.fixture
def ranks():
    """Every rank's connections and tensors, on addresses drawn at random."""
    prefix = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}"
    ips = [f"{prefix}.{rank + 1}" for rank in range(PLAN.num_ranks)]
    ids = np.array([[[0], [1], [2], [0], [1]]] * 3, np.int32)
    routes = Routes(ids, Placement.even(3, 3))
    with ThreadPoolExecutor(len(ips)) as pool:
        meshes = list(pool.map(lambda rank: Mesh(rank, ips), range(len(ips))))
        yield pool, [(mesh, Tensors(PLAN, rank, routes)) for rank, mesh in enumerate(meshes)]
        for mesh in meshes:
            mesh.close()


def test_the_ring_gives_all_rows_and_the_sums_of_all_partial_rows(ranks):
    pool, given = ranks
    for (_, tensors), (rows, sums) in zip(
        given, pool.map(lambda one: Ring(*one).run(), given), strict=True
    ):
        assert torch.equal(rows, torch.stack([rows_of(PLAN, rank) for rank in range(3)]))
        must_be_equal("sums", sums, tensors.sums(routed=False), 1e-5)


def test_all_to_all_sums_what_the_needed_ranks_give(ranks):
    pool, given = ranks
    for (_, tensors), sums in zip(
        given, pool.map(lambda one: AllToAll(*one).run(), given), strict=True
    ):
        must_be_equal("sums", sums, tensors.sums(routed=True), 1e-5)


def outcome(seconds):
    """A run in which each scheme took `seconds`, and the link 4 s for the bytes of a ring."""
    routes = Routes(np.array([[[1]] * 5, [[2]] * 5, [[2]] * 5], np.int32), Placement.even(3, 3))
    samples = tuple(
        Sample(scheme, each_s, (Moved(1000, 900, 0),), 0.1) for scheme, each_s in seconds.items()
    )
    counts = {"pulls": 0, "repeated_dispatches": 2}
    plan = replace(PLAN, schemes=tuple(seconds), rate_bits_s=8 * PLAN.own_bytes)
    return Outcome(plan, routes, samples, counts, shapers_dropped=0, num_cores=2)


def test_bytes_by_the_model_are_those_of_the_design():
    run = outcome(dict.fromkeys(PLAN.schemes, 1.0))
    fanout, own = 2 / 3, PLAN.own_bytes  # two of three owners' rows need another rank
    assert run.routes.fanout == pytest.approx(fanout)
    assert {scheme: model_bytes(run, scheme) / own for scheme in PLAN.schemes} == pytest.approx(
        {STATIC: 3, ROUTED: fanout + 1, RING: 4, ALL_TO_ALL: 2 * fanout}
    )
    assert busiest_bytes(run, ROUTED) == 2 * own  # rank 1: its own rows, and those of rank 0


def test_ratios_have_the_names_and_limits_of_the_claim():
    run = outcome({STATIC: 3.0, ROUTED: 2.0, RING: 4.0, ALL_TO_ALL: 1.6})
    found = {one.name: one for one in figures(run)}
    assert found["static_over_ring_n3"].value == 0.75
    assert found["static_over_ring_n3"].limit == pytest.approx(1.05 * 3 / 4)
    assert found["routed_over_alltoall_n3"].value == pytest.approx(1.25)
    assert found["routed_over_alltoall_n3"].limit == pytest.approx(1.05 * 5 / 4)
    assert found["repairs"].value == 2


def test_nothing_is_claimed_of_a_baseline_far_from_its_own_bound():
    run = outcome({ROUTED: 2.0, ALL_TO_ALL: 16.0})
    found = {one.name: one for one in figures(run)}
    assert found["routed_over_alltoall_n3"].limit is None


@pytest.mark.parametrize(("mpi_s", "ring", "ratio"), [(3.0, "mpi", 1.0), (5.0, "ring", 0.75)])
def test_ratios_are_to_the_faster_ring(mpi_s, ring, ratio):
    run = outcome({STATIC: 3.0, RING: 4.0, MPI: mpi_s})
    found = {one.name: one for one in figures(run)}
    assert found["static_over_ring_n3"].value == ratio
    assert f"static over {ring}," in found["static_over_ring_n3"].how
    limits = {name: found[f"{name}_over_bound_n3"].limit for name in (RING, MPI)}
    assert limits == {RING: None, MPI: None} | {ring: 1.10}


def test_mpi_is_left_out_with_the_package_that_brings_it(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    assert schemes_named("static,mpi") == [STATIC]
    assert "openmpi-bin" in capsys.readouterr().err
    with pytest.raises(argparse.ArgumentTypeError, match="no scheme is left"):
        schemes_named("mpi")


def test_a_scheme_that_does_not_exist_is_refused():
    with pytest.raises(argparse.ArgumentTypeError, match=r"rings: not one of static, .*, mpi"):
        schemes_named("static,rings")


def test_uniform_routing_needs_as_many_ranks_as_chance_says():
    expected = 3 * (1 - np.prod([(48 - i) / (64 - i) for i in range(8)]))
    assert routes_of(Plan(tokens=2000)).fanout == pytest.approx(expected, abs=0.02)


def test_rows_of_trained_routing_go_to_copies_of_what_the_model_chose():
    plan = Plan(num_ranks=4, tokens=128, routing=TRAINED)
    found = trained(plan)
    assert found.measured.shape == (4, 128, 4)
    physical = planned(found.earlier, found.num_experts, plan.num_redundant)
    routes = routed(found.measured, physical)
    assert (physical.logical_of[routes.ids] == found.measured).all()
    assert len(physical.logical_of) == found.num_experts + 8
    once = routed(found.measured, planned(found.earlier, found.num_experts))
    assert routes.fanout < once.fanout
    assert busiest_rows(routes) < 0.9 * busiest_rows(once)


def busiest_rows(routes):
    """By the byte model's two terms."""
    return (routes.copies.sum(axis=0) + routes.own_sent()).max()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"routing": TRAINED, "redundant_experts": 3}, "19 experts do not divide by 4 ranks"),
        ({"redundant_experts": 4}, "--redundant-experts 4: only with --routing trained"),
    ],
)
def test_redundant_experts_that_cannot_be_are_refused(options, says):
    with pytest.raises((PlacementError, DemoError), match=says):
        routes_of(Plan(num_ranks=4, tokens=16, **options))
