# SPDX-License-Identifier: Apache-2.0
"""Log lines as text or as JSON, and where they go; configures only the loggers it is given.

Nobody waits for standard error to be read for longer than PATIENCE_S: then the line is lost.
"""

from __future__ import annotations

import argparse
import json
import logging
import select
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

FORMATS: Final = ("text", "json")
PATIENCE_S: Final = 0.2
LEVELS: Final = ("debug", "info", "warning", "error")
_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# What every record has; all else was given with `extra`.
_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _StandardError(logging.StreamHandler[TextIO]):
    """A pipe that is full, as where its reader sleeps, holds up no thread."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, or lose it."""
        try:
            asked = select.poll()
            asked.register(self.stream, select.POLLOUT)
            is_writable = bool(asked.poll(PATIENCE_S * 1000))
        except (OSError, ValueError):  # no file of the system's, as some tests have
            is_writable = True
        if is_writable:
            super().emit(record)


class JsonFormatter(logging.Formatter):
    """One object per line: time (UTC), level, logger, message, the fields of `extra`, error."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _PLAIN}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def formatter(form: str) -> logging.Formatter:
    """Return the formatter of a name in FORMATS."""
    return JsonFormatter() if form == "json" else logging.Formatter(_TEXT)


def add_options(parser: argparse.ArgumentParser, *, level: str = "info") -> None:
    """Describe the options that `logged` takes."""
    add, says = parser.add_argument, "(default: %(default)s)"
    add("--log-level", choices=LEVELS, default=level, help=says)
    add("--log-format", choices=FORMATS, default=FORMATS[0], help=f"JSON: an object a line {says}")
    add("--log-file", type=Path, metavar="FILE", help="instead of standard error")


@contextmanager
def logged(names: Sequence[str], level: str, form: str, path: Path | None = None) -> Iterator[None]:
    """Write what the named loggers say to a file, or to standard error; raises OSError."""
    handler = logging.FileHandler(path) if path else _StandardError()
    handler.setFormatter(formatter(form))
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(level.upper())
        logger.propagate = False  # p4runtime-shell has the root logger print everything
    try:
        yield
    finally:
        for logger, (old_level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(old_level)
            logger.propagate = propagate
        handler.close()
