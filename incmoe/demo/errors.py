# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a demo run, each as one line that a person can act on."""

from __future__ import annotations


class DemoError(RuntimeError):
    """The demo could not be set up, or did not do what it shows."""


class ChildFailedError(DemoError):
    """A process of the demo ended unasked or failed; `log_tail` is the end of what it wrote."""

    def __init__(self, name: str, reason: str, log_tail: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.log_tail = log_tail


class InterruptedRunError(DemoError):
    """The user, or a supervisor, asked the demo to stop; `signal_number` says how."""

    def __init__(self, signal_number: int) -> None:
        super().__init__("stopped on request; all processes of the demo have ended")
        self.signal_number = signal_number
