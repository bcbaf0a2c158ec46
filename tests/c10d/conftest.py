# SPDX-License-Identifier: Apache-2.0
"""Worlds of two and four ranks, started once and used by all tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.c10d.world import World, enter


@pytest.fixture(scope="session")
def worlds() -> Iterator[Callable[[int], World]]:
    """A world of so many ranks; a new one where the last test broke it. One at a time runs."""
    open_worlds: dict[int, World] = {}

    def of(num_ranks: int) -> World:
        world = open_worlds.get(num_ranks)
        if world is None or world.is_broken:
            if world is not None:
                world.close()
            open_worlds[num_ranks] = World(num_ranks)
            open_worlds[num_ranks].run(enter)
        return open_worlds[num_ranks]

    yield of
    for world in open_worlds.values():
        world.close()


@pytest.fixture(params=[2, 4], ids=["world2", "world4"])
def world(request: pytest.FixtureRequest, worlds: Callable[[int], World]) -> World:
    """Ranks whose default process group is over the switch."""
    return worlds(request.param)


@pytest.fixture
def four(worlds: Callable[[int], World]) -> World:
    """Four of them."""
    return worlds(4)
