# SPDX-License-Identifier: Apache-2.0
"""A child for the tests of supervision: does as told over its channel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from incmoe.demo.channel import Channel


def main() -> None:
    """`puppet [ACTION]`: the action first, then commands until told to quit."""
    if "stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    channel = Channel.of_this_process()
    channel.report("ready", pid=os.getpid())
    while True:
        command = channel.next_command()
        match command["do"]:
            case "quit":
                return
            case "exit":
                sys.stdout.write("last words\n")
                sys.exit(command["status"])
            case "fail":
                channel.report("error", message=command["message"])
                sys.exit(1)
            case "fork":
                helper = subprocess.Popen(["sleep", "60"])
                channel.report("forked", pid=helper.pid)
            case "echo":
                channel.report("echo", text=command["text"])
            case "sleep":
                time.sleep(60)


if __name__ == "__main__":
    main()
