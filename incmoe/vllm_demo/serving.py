# SPDX-License-Identifier: Apache-2.0
"""How vLLM is started with our plug-in, as words of a command; starts nothing.

INCMOE_VLLM=runner INCMOE_CONTROLLER=... vllm serve MODEL --data-parallel-size N
    --enable-expert-parallel
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from host_agent.vllm_plugin.choice import VARIABLE
from incmoe.demo.errors import DemoError

LAUNCHER: Final = "host_agent.vllm_plugin.launch"
PYTHON_VARIABLE: Final = "INCMOE_VLLM_PYTHON"
# Several engines on few cores, a small model, nothing from outside.
SETTINGS: Final = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}
EAGER: Final = {"TORCHDYNAMO_DISABLE": "1"}  # else the first request waits for a compiler
ENGINE: Final = {
    "dtype": "float32",
    "kv_cache_memory_bytes": 64 << 20,
    "max_model_len": 512,
    "max_num_batched_tokens": 1024,
    "max_num_seqs": 32,
}
# Each engine computes in its own process. vLLM's CPU platform takes "uni" for "mp", whose workers
# look for work without a pause: more than there are cores starve each other.
IN_PROCESS: Final = {
    "distributed_executor_backend": "vllm.v1.executor.uniproc_executor.UniProcExecutor",
}
_PROBE: Final = """
import json
from importlib.metadata import entry_points
import vllm.version, grpc
names = [one.name for one in entry_points(group="vllm.general_plugins")]
print(json.dumps([vllm.version.__version__, "incmoe" in names]))
"""


@dataclass(frozen=True, slots=True)
class Serving:
    """A server, or one rank of one on several machines: `parallel` are the options of that."""

    python: str
    model: Path
    choice: str  # a Choice; empty: stock vLLM
    variables: Mapping[str, str]  # host_agent.access.VARIABLES
    parallel: Sequence[str]
    port: int
    eager: bool = True
    engine: Mapping[str, object] = field(default_factory=lambda: ENGINE | IN_PROCESS)

    def words(self) -> list[str]:
        """The whole command, its environment included."""
        variables = SETTINGS | (EAGER if self.eager else {}) | dict(self.variables)
        if self.choice:
            variables |= {VARIABLE: self.choice}
        return [
            *("env", *(f"{name}={value}" for name, value in variables.items())),
            *(self.python, "-m", LAUNCHER, "serve", str(self.model)),
            *("--port", str(self.port), "--host", "127.0.0.1", *self.parallel),
            *(["--enforce-eager"] if self.eager else []),
            *(word for name, value in self.engine.items() for word in _option(name, value)),
        ]

    @property
    def url(self) -> str:
        """Where the server answers, in the namespace of its first rank."""
        return f"http://127.0.0.1:{self.port}"


def on_one_machine(num_ranks: int) -> list[str]:
    """The options of all ranks in one server."""
    return [
        *("--data-parallel-size", str(num_ranks), "--enable-expert-parallel"),
        *("--api-server-count", "1"),
    ]


def check_python(python: str) -> str:
    """The version of vLLM there; DemoError when it, or this package, is missing."""
    try:
        done = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, check=False)
    except OSError as error:
        raise DemoError(f"{python} cannot be run: {error.strerror}") from None
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise DemoError(f"{python} cannot run vLLM with the plug-in: {why}")
    version, has_plugin = json.loads(done.stdout.splitlines()[-1])
    if not has_plugin:
        raise DemoError(
            f"{python} has vLLM {version} without the plug-in: "
            f"{python} -m pip install 'incmoe[vllm]'"
        )
    return str(version)


def _option(name: str, value: object) -> list[str]:
    return ["--" + name.replace("_", "-"), str(value)]
