# SPDX-License-Identifier: Apache-2.0
"""What the backend refuses; errors of the network are those of host_agent.errors."""

from __future__ import annotations

from host_agent.errors import AgentError


class CollectiveError(AgentError, ValueError):
    """A collective whose tensors do not fit together, here or between the ranks."""


class UnsupportedError(CollectiveError, NotImplementedError):
    """A type of tensor, or an operation, that the backend does not have."""


class CollectiveTimeout(AgentError, TimeoutError):  # noqa: N818 - it is named like RankLost
    """A collective that did not end in the time its group, or its caller, allows."""
