# SPDX-License-Identifier: Apache-2.0
"""Credentials that cannot be, named by their file."""

from __future__ import annotations

import subprocess
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


@pytest.mark.parametrize(
    ("which", "what", "line"),
    [
        ("cert", "certificate", "-----BEGIN CERTIFICATE-----"),
        ("key", "private key", "-----BEGIN ... PRIVATE KEY-----"),
        ("ca", "certificate", "-----BEGIN CERTIFICATE-----"),
    ],
)
@pytest.mark.parametrize("content", ["", "no PEM\n"])
def test_what_is_not_pem_is_named(
    tls: Tls, tmp_path: Path, which: str, what: str, line: str, content: str
) -> None:
    other = tmp_path / "other.pem"
    other.write_text(content)
    files = {"cert": tls.cert, "key": tls.key, "ca": tls.ca, which: other}
    with pytest.raises(TlsError) as caught:
        Tls.given(**files)
    said = f"TLS {which}: {other} is no {what} in PEM: it has no line {line}"
    assert str(caught.value) == said


@pytest.mark.parametrize("which", ["cert", "key", "ca"])
def test_pem_that_is_damaged_is_named(tls: Tls, tmp_path: Path, which: str) -> None:
    files = {"cert": tls.cert, "key": tls.key, "ca": tls.ca}
    other = tmp_path / "other.pem"
    first, *_, last = files[which].read_text().splitlines()
    other.write_text(f"{first}\nabcd\n{last}\n")
    with pytest.raises(TlsError, match=f"TLS {which}: {other} .*its contents are damaged"):
        Tls.given(**files | {which: other})


def test_a_key_with_a_password_asks_nobody(tls: Tls, tmp_path: Path) -> None:
    key = tmp_path / "secret.key"
    words = ["openssl", "pkcs8", "-topk8", "-v2", "aes128", "-passout", "pass:x"]
    subprocess.run([*words, "-in", str(tls.key), "-out", str(key)], check=True)
    with pytest.raises(TlsError, match=f"TLS key: {key} needs a password"):
        Tls.given(tls.cert, key, tls.ca)
