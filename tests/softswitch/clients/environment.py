# SPDX-License-Identifier: Apache-2.0
"""The interpreters that have other people's controllers.

They need packages that do not go with ours (finsy another protobuf), so each may have a virtual
environment of its own, which a variable of the environment names:

    python -m venv DIR && DIR/bin/pip install finsy            INCMOE_FINSY_PYTHON=DIR/bin/python
    python -m venv DIR && DIR/bin/pip install ptf p4runtime 'protobuf<3.21'
                                                               INCMOE_PTF_PYTHON=DIR/bin/python
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest

FINSY_VARIABLE = "INCMOE_FINSY_PYTHON"
PTF_VARIABLE = "INCMOE_PTF_PYTHON"


def python(variable: str) -> str:
    """The interpreter that the environment names, or this one."""
    return os.environ.get(variable, sys.executable)


@functools.cache
def why_not(variable: str, *modules: str) -> str | None:
    """Why the interpreter cannot be used, or None."""
    probe = "import importlib.util, sys\nfor name in sys.argv[1:]:\n"
    probe += "  importlib.util.find_spec(name) or sys.exit(f'has no {name}')"
    command = [python(variable), "-c", probe, *modules]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{variable} is {python(variable)}: {error.strerror}"
    if done.returncode:
        what = done.stderr.strip()
        return f"{python(variable)} {what}; {variable} may name an interpreter that has"
    return None


def needs(variable: str, *modules: str) -> pytest.MarkDecorator:
    reason = why_not(variable, *modules)
    return pytest.mark.skipif(reason is not None, reason=reason or "")
