# SPDX-License-Identifier: Apache-2.0
"""What the collectives need of a rank's endpoint, so that tests can put another in its place."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from host_agent.endpoint import IncomingBand, OutgoingBand
from host_agent.session import Session


class Fabric(Protocol):
    """One rank's way to the switch, as Endpoint is. Every method may raise an AgentError."""

    @property
    def session(self) -> Session:
        """The rank's place in the job."""

    @property
    def gone(self) -> int:
        """Bitmap of the ranks that the job goes on without."""

    def send_band(self, band: OutgoingBand) -> None:
        """Send a band's header to all ranks and each row to its members; arrays are given away."""

    def receive_band(self, owner: int, call: int, band: int) -> IncomingBand:
        """Wait for a band of `owner`: its header and the rows this rank wants, in their order.

        Raises RankLost if `owner` is, or comes to be, `gone`.
        """

    def contribute(
        self, owner: int, numbers: NDArray[np.int64], values: NDArray[np.float32]
    ) -> None:
        """Give this rank's partial rows for rows of `owner`."""

    def wait_sums(self, call: int, band: int) -> NDArray[np.float64]:
        """Wait for the sums of what the others gave for a band of this rank; zeros where none."""

    def stats(self) -> dict[str, int]:
        """Return what was counted, by name."""

    def abort(self) -> None:
        """End the rank's part at once; nothing the others ask is answered any more."""

    def close(self) -> None:
        """End the rank's part in the job; what waits is told so by an error."""
