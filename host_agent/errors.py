# SPDX-License-Identifier: Apache-2.0
"""The errors that an agent raises; says what failed, never how to go on."""

from __future__ import annotations

from collections.abc import Sequence


class AgentError(RuntimeError):
    """Base of everything a rank's agent raises."""


class SessionError(AgentError, ValueError):
    """A session, or something asked of it, that does not fit its limits."""


class TransportError(AgentError):
    """The job cannot go on as it is."""


class ProtocolError(TransportError):
    """A rank of this very job sent what the protocol does not allow."""


class EndpointClosed(TransportError):  # noqa: N818
    """The endpoint was closed while, or before, something was asked of it."""


class JobEnded(TransportError):  # noqa: N818
    """The controller says that this generation of the job is over."""


class RankLost(TransportError):  # noqa: N818
    """Ranks that something was awaited from are gone."""

    def __init__(self, ranks: Sequence[int], reason: str) -> None:
        super().__init__(ranks, reason)
        self.ranks = tuple(ranks)
        self.reason = reason

    def __str__(self) -> str:
        word = "rank" if len(self.ranks) == 1 else "ranks"
        return f"{word} {', '.join(map(str, self.ranks))} lost: {self.reason}"


class RankExpelled(TransportError):  # noqa: N818
    """This rank is no longer of the job: the others go on without it."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self.rank = rank

    def __str__(self) -> str:
        return (
            f"rank {self.rank} is no longer of the job: it was silent, or its controller lost it, "
            "and the others go on without it"
        )


class RowsStuck(TransportError):  # noqa: N818
    """Rows that do not get through although everyone is there."""


class SwitchError(TransportError):
    """Something about the switch at `address`."""

    def __init__(self, address: tuple[str, int], reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        host, port = self.address
        return f"switch {host}:{port} {self.reason}"


class SwitchUnreachable(SwitchError):  # noqa: N818
    """No answer from the switch at the start."""


class SwitchLost(SwitchError):  # noqa: N818
    """The switch, and with it every rank, fell silent."""
