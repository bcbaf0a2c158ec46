# SPDX-License-Identifier: Apache-2.0
"""A rank of a soak: joins, calls, checks; when the job fails it says so and joins again.

(joined, (called)*, failed)* until quit. Knows nothing of the faults.
"""

from __future__ import annotations

import faulthandler
import sys
import threading
import time
from functools import partial
from itertools import count
from pathlib import Path

from bench.exact import wanted_by
from bench.soak.plan import GEOMETRY, JOB, Plan
from host_agent.endpoint import Endpoint
from host_agent.errors import AgentError
from host_agent.rendezvous import Join, RendezvousError, join
from host_agent.sockets import bound_socket
from incmoe.demo.channel import Channel, run_child

AGAIN_S = 0.5  # between a failure and the next try


class Rank:
    """One rank through all its lives in the job."""

    def __init__(self, plan: Plan, rank: int, controller: str, host: str) -> None:
        self._plan, self._rank = plan, rank
        self._controller, self._host = controller, host
        self._quit = threading.Event()
        self._ends: list[Endpoint] = []  # the one in use, if any

    def serve(self, channel: Channel) -> None:
        """Take part until told to quit."""
        threading.Thread(target=self._listen, args=(channel,), daemon=True).start()
        while not self._quit.is_set():
            try:
                self._live(channel)
            except (AgentError, RendezvousError) as error:
                channel.report("failed", kind=type(error).__name__, reason=str(error))
                self._quit.wait(AGAIN_S)

    def _listen(self, channel: Channel) -> None:
        while (do := channel.next_command()["do"]) != "quit":
            if do == "tell":
                faulthandler.dump_traceback(sys.stderr)
                ends = self._ends
                channel.report("told", stats=ends[-1].stats() if ends else {})
        self._quit.set()

    def _live(self, channel: Channel) -> None:
        plan, work, rank = self._plan, self._plan.work, self._rank
        bound = bound_socket(self._host)
        udp_port = bound.getsockname()[1]
        request = Join(
            *(JOB, rank, plan.num_ranks, self._host, udp_port, GEOMETRY, work.fingerprint)
        )
        with bound, join(self._controller, request) as membership:
            session = membership.ticket.session(rank, work.row, timers=plan.timers)
            with Endpoint(session, partial(wanted_by, rank), bound=bound) as endpoint:
                endpoint.check_switch()
                channel.report("joined", generation=session.generation)
                self._ends = [endpoint]
                try:
                    self._call(channel, endpoint)
                finally:
                    self._ends = []

    def _call(self, channel: Channel, endpoint: Endpoint) -> None:
        due = time.monotonic()
        for call in count():
            if self._quit.is_set():
                return
            called = self._plan.work.call(endpoint, call)
            stats = endpoint.stats()
            channel.report(
                "called",
                rows=called.num_rows,
                wrong_sums=called.wrong_sums,
                counts={name: stats[name] for name in ("pulls", "probes", "sums", "foreign")},
            )
            due = max(due + 1 / self._plan.calls_s, time.monotonic())  # what is late stays so
            self._quit.wait(max(due - time.monotonic(), 0.0))


def main() -> None:
    """The process: `rank FOLDER RANK CONTROLLER HOST`."""
    folder, number, controller, host = sys.argv[1:]
    rank = Rank(Plan.read(Path(folder)), int(number), controller, host)
    sys.exit(run_child(rank.serve, expected=(OSError,)))


if __name__ == "__main__":
    main()
