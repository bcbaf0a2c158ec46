# SPDX-License-Identifier: Apache-2.0
"""Errors a user of the controller can meet; every one is a ControllerError and fits on one line."""


class ControllerError(RuntimeError):
    """Base of all errors raised for bad input from outside."""


class JobFileError(ControllerError):
    """A job file says something it may not; names the field, the value and the limit."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        self.problem = problem
        super().__init__(f"{field}: {problem}")


class SwitchError(ControllerError):
    """A switch cannot be reached, refused a request, or does not hold what was written."""

    def __init__(self, switch: str, problem: str) -> None:
        self.switch = switch
        super().__init__(f"switch {switch}: {problem}")


class NoRoomError(ControllerError):
    """A switch has too few free slots, cells or numbers left for a job."""


class RefusedError(ControllerError):
    """A rank may not join; the text goes to the rank."""
