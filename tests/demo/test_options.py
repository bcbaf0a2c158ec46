# SPDX-License-Identifier: Apache-2.0
"""Options that cannot be meant are refused before work begins, with the limit and the value."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from incmoe.options import above, input_file, output_file, output_folder, whole


@pytest.mark.parametrize("text", ["0", "-1", "9", "2.5", "many", ""])
def test_a_number_outside_the_limits_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"{text}: must be 1 to 8"):
        whole(1, 8)(text)


def test_a_number_within_them_is_taken() -> None:
    assert [whole(1, 8)(text) for text in ("1", "8")] == [1, 8]
    with pytest.raises(argparse.ArgumentTypeError, match="1: must be 2 or more"):
        whole(2)("1")


def test_a_file_that_cannot_be_written_is_refused_and_none_is_made(tmp_path: Path) -> None:
    for wrong, why in (
        (tmp_path, "is a folder, a file is needed"),
        (tmp_path / "none" / "x.json", f"there is no folder {tmp_path / 'none'}"),
    ):
        with pytest.raises(argparse.ArgumentTypeError, match=why):
            output_file(str(wrong))
    assert output_file(str(tmp_path / "x.json")) == tmp_path / "x.json"
    assert not list(tmp_path.iterdir())


def test_other_kinds(tmp_path: Path) -> None:
    assert above(0)("0.5") == 0.5
    for text in ("0", "-1", "nan", "inf", "long"):
        with pytest.raises(argparse.ArgumentTypeError, match=f"{text}: must be above 0"):
            above(0)(text)
    assert output_folder(str(tmp_path / "a" / "b")) == tmp_path / "a" / "b"
    file = tmp_path / "file"
    file.touch()
    assert input_file(str(file)) == file
    with pytest.raises(argparse.ArgumentTypeError, match="no folder that may be written"):
        output_folder(str(file / "b"))
    with pytest.raises(argparse.ArgumentTypeError, match="is no file that can be read"):
        input_file(str(tmp_path / "none"))
