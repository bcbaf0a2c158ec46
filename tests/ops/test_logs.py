# SPDX-License-Identifier: Apache-2.0
"""Log lines, as text and as JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ops.logs import logged


def test_a_json_line_has_the_message_and_what_came_with_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with logged(["one.service"], "info", "json", path):
        log = logging.getLogger("one.service.part")
        log.info("rank %d is %s", 3, "lost", extra={"rank": 3, "where": Path("/x")})
        log.debug("too little")
        try:
            raise ValueError("why\nso")
        except ValueError:
            log.exception("failed")
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first.pop("time").endswith("+00:00")
    assert first == {
        "level": "info",
        "logger": "one.service.part",
        "message": "rank 3 is lost",
        "rank": 3,
        "where": "/x",
    }
    assert second["level"] == "error"
    assert "ValueError: why" in second["error"]


def test_other_loggers_and_later_lines_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with logged(["one.service"], "warning", "text", path):
        logging.getLogger("another").warning("not mine")
        logging.getLogger("one.service").warning("mine")
    logging.getLogger("one.service").warning("too late")
    (line,) = path.read_text().splitlines()
    assert line.endswith(" WARNING one.service: mine")


def test_a_line_that_nobody_reads_is_lost_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with suppress(BlockingIOError):
        while True:
            os.write(write_end, bytes(4096))
    os.set_blocking(write_end, True)
    with os.fdopen(write_end, "w") as pipe:
        monkeypatch.setattr(sys, "stderr", pipe)
        began = time.monotonic()
        with logged(["one.service"], "info", "text"):
            logging.getLogger("one.service").info("unread")
            assert time.monotonic() - began < 2
            os.read(read_end, 1 << 20)
            logging.getLogger("one.service").info("read")
    assert os.read(read_end, 1 << 20).endswith(b"INFO one.service: read\n")
    os.close(read_end)
