# SPDX-License-Identifier: Apache-2.0
"""Runs vLLM offline, a process for each data-parallel rank, as the tests ask."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from incmoe.vllm_demo.run import free_port
from incmoe.vllm_demo.serving import EAGER, ENGINE, SETTINGS
from tests.vllm.environment import python

PATIENCE_S = 180.0
Prompts = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Offline:
    """Prompts of each rank, and what the environment says besides."""

    model: Path
    prompts: Sequence[Prompts]
    environment: Mapping[str, str]
    eager: bool = True
    new_tokens: int = 16
    probe_rows: Sequence[int] = ()
    dies: int | None = None  # this rank, when it is to call its first layer

    def run(self, folder: Path) -> list[dict[str, Any]]:
        """What each rank told; raises with the end of the log of one that failed."""
        for number, code in enumerate(self.exit_codes(folder)):
            assert code == 0, (folder / f"{number}.log").read_text()[-3000:]
        return [json.loads((folder / f"{r}.json").read_text()) for r in range(len(self.prompts))]

    def exit_codes(self, folder: Path) -> list[int]:
        """How each rank's process ended; nothing of it is left. Logs are RANK.log in `folder`."""
        asked = {
            "prompts": self.prompts,
            "engine": {**ENGINE, "model": str(self.model), "enforce_eager": self.eager},
            "new_tokens": self.new_tokens,
            "probe_rows": self.probe_rows,
            "dies": self.dies,
            "master_port": free_port(),
            "patience_s": PATIENCE_S,
        }
        (folder / "asked.json").write_text(json.dumps(asked))
        ranks = [self._start(rank, folder) for rank in range(len(self.prompts))]
        try:
            return [rank.wait(PATIENCE_S) for rank in ranks]
        finally:
            for rank in ranks:
                with suppress(ProcessLookupError):
                    os.killpg(rank.pid, signal.SIGKILL)  # its engine and worker too
                rank.wait()

    def _start(self, rank: int, folder: Path) -> subprocess.Popen[bytes]:
        settings = SETTINGS | (EAGER if self.eager else {})
        with (folder / f"{rank}.log").open("wb") as log:
            return subprocess.Popen(
                [python(), "-m", "tests.vllm.offline", str(rank), str(folder)],
                env={**self.environment, **settings},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
