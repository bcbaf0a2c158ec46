# SPDX-License-Identifier: Apache-2.0
"""The interpreter that has vLLM, and how its processes find the plug-in of this checkout."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

from incmoe.vllm_demo.serving import PYTHON_VARIABLE

ROOT = Path(__file__).parents[2]
_METADATA = "from setuptools import setup; setup()"


def python() -> str:
    """The interpreter that the environment names, or this one."""
    return os.environ.get(PYTHON_VARIABLE, sys.executable)


@functools.cache
def why_no_vllm() -> str | None:
    """Why the tests with vLLM cannot run, or None."""
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
    try:
        done = subprocess.run([python(), "-c", probe], capture_output=True, check=False)
    except OSError as error:
        return f"{PYTHON_VARIABLE} is {python()}: {error.strerror}"
    if done.returncode:
        return f"{python()} has no vLLM; {PYTHON_VARIABLE} may name an interpreter that has"
    return None


def with_plugin(folder: Path) -> dict[str, str]:
    """An environment in which vLLM finds this checkout's entry points, as if it was installed."""
    words = [python(), "-W", "ignore", "-c", _METADATA, "-q", "egg_info", "--egg-base", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
