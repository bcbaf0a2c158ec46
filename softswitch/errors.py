# SPDX-License-Identifier: Apache-2.0
"""Errors a user of the switch can meet; every one is a SwitchError and names what was wrong."""

from dataclasses import dataclass


class SwitchError(Exception):
    """Base of all errors raised for bad input from outside."""


class LoadError(SwitchError):
    """The program file is not BMv2 JSON, or contradicts itself."""


@dataclass(frozen=True)
class SourceInfo:
    """A place in the P4 source, as the compiler recorded it."""

    filename: str
    line: int
    column: int
    fragment: str

    def __str__(self) -> str:
        return f"{self.filename}:{self.line}:{self.column}: {self.fragment}"


class UnsupportedFeature(SwitchError):  # noqa: N818
    """A legal program uses something this switch does not do."""

    def __init__(self, feature: str, where: str, source: SourceInfo | None = None) -> None:
        self.feature = feature
        self.where = where
        self.source = source
        place = f" ({source})" if source else ""
        super().__init__(f"{where} uses {feature}, which this switch does not support{place}")


class StateError(SwitchError):
    """A control-plane update that the program or the present state does not allow."""

    index: int | None = None  # which update of a list it was


class InvalidUpdate(StateError):  # noqa: N818
    """An update that the program can never allow: wrong name, width, match kind or action."""


class AlreadyExists(StateError):  # noqa: N818
    """An insert of something that is there."""


class NotFound(StateError):  # noqa: N818
    """A change of something that is not there, or a name the program does not have."""


class StillUsed(StateError):  # noqa: N818
    """A deletion of something that something else refers to."""


class NotAllowed(StateError):  # noqa: N818
    """A change of something that is constant in the program."""


class ResourceExhausted(StateError):  # noqa: N818
    """A table, group or value set is full."""
