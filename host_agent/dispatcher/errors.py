# SPDX-License-Identifier: Apache-2.0
"""The error of a dispatcher that was asked for what does not fit; transport errors have others."""

from __future__ import annotations

from host_agent.errors import AgentError


class DispatcherError(AgentError, ValueError):
    """Rows, ids or a handle that do not fit the buffer, or a buffer that is full."""
