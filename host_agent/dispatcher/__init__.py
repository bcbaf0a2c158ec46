# SPDX-License-Identifier: Apache-2.0
"""Dispatch and combine for engines that run experts of their own, in the manner of DeepEP."""

from host_agent.dispatcher.buffer import Buffer
from host_agent.dispatcher.errors import DispatcherError
from host_agent.dispatcher.event import Event
from host_agent.dispatcher.handle import Handle
from host_agent.dispatcher.layout import DispatchLayout
from host_agent.dispatcher.rows import Rows

__all__ = ["Buffer", "DispatchLayout", "DispatcherError", "Event", "Handle", "Rows"]
