# SPDX-License-Identifier: Apache-2.0
"""Losses on purpose as entries."""

from __future__ import annotations

import pytest

from controller.entries import Row
from controller.errors import ControllerError
from controller.faults import Loss, fault_entries, faults
from host_agent.wire import Op


def test_a_loss_is_an_entry_for_each_port_op_and_direction() -> None:
    loss = Loss(0.25, ops=[Op.DISPATCH, Op.RESULT])
    chance = {"chance": 1 << 30}
    assert list(fault_entries(loss, [3])) == [
        Row("Entry.chances", {"port": 3, "op": 1}, "Entry.lose", chance),
        Row("Entry.chances", {"port": 3, "op": 3}, "Entry.lose", chance),
        Row("Exit.chances", {"port": 3, "op": 1}, "Exit.lose", chance),
        Row("Exit.chances", {"port": 3, "op": 3}, "Exit.lose", chance),
    ]
    entering = Loss(0.25, leaving=False)
    tables = {row.table for row in fault_entries(entering, [1, 2])}
    assert tables == {"Entry.chances"}
    assert len(list(fault_entries(entering, [1, 2]))) == 2 * len(Op)
    assert all(faults(entry) for entry in fault_entries(loss, [1]))


@pytest.mark.parametrize("chance", [-0.1, 1.0, float("nan")])
def test_a_chance_is_a_share(chance: float) -> None:
    with pytest.raises(ControllerError, match=r"chance of a loss is .*, not in 0\.\.1"):
        Loss(chance)
