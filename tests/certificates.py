# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made by the program openssl: an authority and those it signs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ops.tls import Tls

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="needs openssl on PATH (package openssl)"
)
_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]


class Authority:
    """Signs certificates; keeps its files in a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, name
        self.ca = folder / f"{name}.pem"
        self._openssl(name, "-addext", "basicConstraints=critical,CA:TRUE")

    def issue(self, name: str) -> Tls:
        """Return the files of one that is called `name` and lives on this machine."""
        signed = ["-CA", str(self.ca), "-CAkey", str(self.ca.with_suffix(".key"))]
        names = f"subjectAltName=DNS:{name},IP:127.0.0.1"
        self._openssl(name, *signed, "-addext", names)
        return Tls.given(self._folder / f"{name}.pem", self._folder / f"{name}.key", self.ca)

    def _openssl(self, name: str, *words: str) -> None:
        key, out = self._folder / f"{name}.key", self._folder / f"{name}.pem"
        command = ["openssl", "req", "-x509", *_KEY, "-subj", f"/CN={name}", *words]
        command += ["-keyout", str(key), "-out", str(out)]
        subprocess.run(command, check=True, capture_output=True)


def options(tls: Tls) -> list[str]:
    """Return the files as a command's options."""
    files = {"cert": tls.cert, "key": tls.key, "ca": tls.ca}
    return [word for name, path in files.items() for word in (f"--tls-{name}", str(path))]
