# SPDX-License-Identifier: Apache-2.0
"""Table entries come, change and go while packets flow, fewer than bench.updates has."""

import pytest

from bench.updates import Plan, figures, run
from tests import namespaces

PLAN = Plan(num_entries=200, per_request=4, quiet_s=0.3)

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(namespaces.why_not() is not None, reason=namespaces.why_not() or ""),
]


@pytest.mark.timeout(120)
def test_no_packet_is_lost_or_sees_half_an_entry():
    phases = run(PLAN)
    limited = {one.name: one.value for one in figures(PLAN, phases) if one.limit is not None}
    assert limited == {"lost": 0, "twice": 0, "half_made": 0}
    quiet, insert, modify, delete = (phase.by_version for phase in phases)
    assert quiet[1:] == (0, 0)
    assert insert[1] > 0
    assert insert[2] == 0
    assert modify[0] == 0
    assert modify[1] > 0
    assert modify[2] > 0
    assert delete[0] > 0
    assert delete[1] == 0
    assert sum(map(sum, (quiet, insert, modify, delete))) == sum(one.sent for one in phases)
