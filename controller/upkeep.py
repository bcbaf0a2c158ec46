# SPDX-License-Identifier: Apache-2.0
"""Keeps the jobs a controller serves on their switches while they run; knows no rank.

1. A job is claimed on all its switches before it is installed, and as long as it is served.
2. What its switches hold then is noted. A switch that goes and comes back empty is given it again,
   under the same generation: registers start at zero, and the ranks repeat what is missing.
3. Entries that somebody else took off a switch that stayed are not put back: that was meant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from controller.claim import Claim, ClaimedError, claim_job
from controller.deploy import Deployer, Installed
from controller.errors import SwitchError
from controller.job import Job
from controller.state import SwitchState

LOOK_S: Final = 0.5  # how long a look for a switch that is gone may take


@dataclass(slots=True)
class Upkeep:
    """One job on its switches."""

    job: Job
    deployer: Deployer
    _claims: dict[str, Claim] = field(default_factory=dict)
    _held: dict[str, SwitchState] = field(default_factory=dict)

    def claim(self) -> None:
        """Be the only controller that serves the job; raises ControllerError."""
        try:
            for name in self.job.switches:
                if name not in self._claims or self._claims[name].is_broken:
                    self._claim(name, self.deployer.deadline_s)
        except Exception:
            self.release()
            raise

    def install(self, job: Job) -> Installed:
        """Put the job, its ranks' addresses known, on its switches; raises ControllerError."""
        self.claim()
        installed = self.deployer.install(job, renew=True)
        self.note()
        return installed

    def adopt(self, generation: int) -> bool:
        """Serve the job if an earlier controller put it on all switches; raises ControllerError."""
        found = self.deployer.find(self.job)
        held = {job.generation for job in found.values()}
        if len(found) != len(self.job.switches) or held != {generation}:
            return False
        self.claim()
        self.note()
        return True

    def remove(self) -> None:
        """Take the job off its switches, and serve it no longer; raises ControllerError."""
        try:
            self.deployer.remove(self.job)
        finally:
            self.release()

    def note(self) -> None:
        """Note what the switches hold of the job; raises SwitchError."""
        self._held = self.deployer.held(self.job)

    def restore(self) -> list[str]:
        """Give switches that came back what they had; return their names.

        Raises ClaimedError or SwitchError if the job cannot be had back.
        """
        restored = []
        for name in [name for name, claim in self._claims.items() if claim.is_broken]:
            try:
                self._claim(name, LOOK_S)
            except ClaimedError:
                raise
            except SwitchError:
                continue  # it is not back
            self.deployer.restore(self.job, name, self._held[name])
            restored.append(name)
        return restored

    def release(self) -> None:
        """Serve the job no longer."""
        for claim in self._claims.values():
            claim.release()
        self._claims.clear()

    def _claim(self, name: str, deadline_s: float) -> None:
        place = self.deployer.place(self.job.switches[name])
        self._claims[name] = claim_job(place, self.job.name, deadline_s=deadline_s)
