# SPDX-License-Identifier: Apache-2.0
"""How torch comes to know the backend, and that it costs nothing where it is not used."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _python(code: str, path: Path, **environ: str) -> str:
    """Run code where the project is installed as far as its entry points go."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = path / f"incmoe-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: incmoe\nVersion: {project['version']}\n")
    lines = [f"{name} = {at}" for name, at in project["entry-points"]["torch.backends"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[torch.backends]", *lines]))
    search = os.pathsep.join([str(path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": search} | environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("first", ["import torch", "import host_agent.c10d, torch"])
@pytest.mark.parametrize("autoload", ["0", "1"])
def test_torch_knows_it_if_it_may_load_it_or_we_are_imported(
    tmp_path: Path, first: str, autoload: str
) -> None:
    code = f"{first}\nprint('inc' in torch.distributed.Backend.backend_list)"
    known = _python(code, tmp_path, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)
    assert known == str(autoload == "1" or "host_agent" in first)


def test_it_is_inert_until_a_group_is_made(tmp_path: Path) -> None:
    code = (
        "import sys, torch\n"
        "from torch import distributed as dist\n"
        "print(dist.Backend.default_device_backend_map['cpu'],"
        " 'host_agent.c10d.process_group' in sys.modules, 'grpc' in sys.modules)"
    )
    assert _python(code, tmp_path) == "gloo False False"


def test_without_an_address_the_variable_is_named(tmp_path: Path) -> None:
    code = (
        "from torch import distributed as dist\n"
        "try:\n"
        "    dist.init_process_group('inc', store=dist.HashStore(), rank=0, world_size=2)\n"
        "except ValueError as error:\n"
        "    print(error)"
    )
    assert _python(code, tmp_path, INCMOE_CONTROLLER="").startswith("INCMOE_CONTROLLER is not set")
