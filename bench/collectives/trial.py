# SPDX-License-Identifier: Apache-2.0
"""One run of a scheme on a rank: begun when all begin, timed, and the first one checked."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import torch

from bench.collectives.plan import ALL_TO_ALL, ROUTED
from bench.collectives.tensors import Tensors, must_be_equal, rows_of

FLOAT_TOLERANCE = 1e-4  # of float32 sums of a few Gaussian values


class Trial:
    """Remembers which schemes were checked."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self._checked: set[str] = set()

    def run(self, scheme: str, work: Callable[[], object], at: float) -> dict[str, float]:
        """Do the work at a time; return when it began and ended, by the clock all share."""
        gc.collect()
        time.sleep(max(at - time.monotonic(), 0.0))
        began, cpu_s = time.monotonic(), time.process_time()
        out = work()
        took = {"began": began, "ended": time.monotonic(), "cpu_s": time.process_time() - cpu_s}
        if scheme not in self._checked:
            self._checked.add(scheme)
            self._check(scheme, out)
        return took

    def _check(self, scheme: str, out: object) -> None:
        rows, sums = out if isinstance(out, tuple) else (None, out)
        expected = self._tensors.sums(routed=scheme in (ROUTED, ALL_TO_ALL))
        must_be_equal(f"{scheme}: sums", sums, expected, FLOAT_TOLERANCE)
        if rows is not None:
            plan = self._tensors.plan
            everyone = torch.cat([rows_of(plan, rank) for rank in range(plan.num_ranks)])
            must_be_equal(f"{scheme}: rows", rows.reshape(everyone.shape), everyone, 0.0)
