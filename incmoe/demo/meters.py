# SPDX-License-Identifier: Apache-2.0
"""Reads what the switch has counted: bytes by port, packets by name; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

from incmoe.demo.network import Network
from incmoe.demo.plan import Plan
from incmoe.demo.traffic import PortBytes


@dataclass(frozen=True, slots=True)
class Counters:
    """Packets by the names of `Op` and of `Drop`."""

    ops: Mapping[str, int]
    drops: Mapping[str, int]


class Meters:
    """An open connection to the switch's counters. Use as a context manager."""

    def __init__(self, plan: Plan, network: Network) -> None:
        self._plan = plan
        self._network = network

    def __enter__(self) -> Meters:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        return None

    def counters(self) -> Counters:
        """Since the switch started."""
        raise NotImplementedError

    def ports(self) -> list[PortBytes]:
        """Since the switch started, by rank."""
        raise NotImplementedError
