# SPDX-License-Identifier: Apache-2.0
"""Credentials that cannot be, named by their file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.tls import Tls, TlsError
from tests.certificates import Authority, needs_openssl

pytestmark = needs_openssl


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    return Authority(tmp_path).issue("one")


def test_all_three_files_are_needed(tls: Tls) -> None:
    with pytest.raises(TlsError, match="TLS needs cert, key and ca: no ca"):
        Tls.given(tls.cert, tls.key, None)


def test_a_file_that_is_not_there_is_named(tls: Tls) -> None:
    with pytest.raises(TlsError, match="TLS key: /nowhere: No such file"):
        Tls.given(tls.cert, Path("/nowhere"), tls.ca)


def test_a_key_of_another_certificate_is_named(tls: Tls, tmp_path: Path) -> None:
    other = Authority(tmp_path, "others").issue("other")
    with pytest.raises(TlsError, match=f"{other.key} is not the key of {tls.cert}"):
        Tls.given(tls.cert, other.key, tls.ca)


def test_an_authority_that_is_no_certificate_is_named(tls: Tls, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with pytest.raises(TlsError, match=f"{empty} is no certificate"):
        Tls.given(tls.cert, tls.key, empty)
