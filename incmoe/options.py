# SPDX-License-Identifier: Apache-2.0
"""Types of command-line options, for argparse: what cannot be done is said before work begins."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a type of whole numbers from `least` to `most` (None: any)."""
    limits = f"{least} or more" if most is None else f"{least} to {most}"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"{text}: must be {limits}")
        return value

    return parse


def above(limit: float) -> Callable[[str], float]:
    """Return a type of finite numbers above `limit`."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = limit
        if not limit < value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text}: must be above {limit:g}")
        return value

    return parse


def input_file(text: str) -> Path:
    """Return the path of a file that can be read."""
    path = Path(text)
    if not path.is_file() or not os.access(path, os.R_OK):
        raise argparse.ArgumentTypeError(f"{text}: is no file that can be read")
    return path


def output_folder(text: str) -> Path:
    """Return the path of a folder that is there or can be made; touches nothing."""
    path = Path(text).absolute()
    there = next(one for one in (path, *path.parents) if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text}: {there} is no folder that may be written")
    return Path(text)


def output_file(text: str) -> Path:
    """Return the path of a file that can be written; touches nothing."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: is a folder, a file is needed")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text}: may not be written")
    return path
