# SPDX-License-Identifier: Apache-2.0
"""Kills, pauses, slows and restarts parts of running jobs, and sees whether they end as documented.

    python -m bench.failures --runs 100 --seed S --json FILE      link faults need root

Every run is a job of its own: an embedded switch, a controller and four ranks, each a process, the
ranks calling a layer again and again with inputs whose outputs are known. Its seed says which part
meets what, when, and whether the job is to fail or to go on. How each rank must end, and by when,
is in `endings.py`, which docs/failures.md is held against.
"""
