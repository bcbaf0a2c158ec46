# SPDX-License-Identifier: Apache-2.0
"""The protocol of a rank without socket, clock and threads: messages and time in, messages out."""

from host_agent.transport.core import Core
from host_agent.transport.incoming import BandHeader
from host_agent.transport.outgoing import Outgoing, OutgoingBand
from host_agent.transport.runs import Run

__all__ = ["BandHeader", "Core", "Outgoing", "OutgoingBand", "Run"]
