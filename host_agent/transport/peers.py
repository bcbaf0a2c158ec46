# SPDX-License-Identifier: Apache-2.0
"""Which other ranks the job still has, for all parts of one rank's transport; decides nothing."""

from __future__ import annotations

from host_agent.session import Session


class Peers:
    """Rank bitmaps: `others` take part, `gone` did."""

    def __init__(self, session: Session) -> None:
        self.others = session.everyone_else
        self.gone = 0

    def exclude(self, ranks: int) -> None:
        """Go on without `ranks`."""
        self.gone |= ranks
        self.others &= ~ranks
