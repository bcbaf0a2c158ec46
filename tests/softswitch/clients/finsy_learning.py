# SPDX-License-Identifier: Apache-2.0
"""A learning switch as a finsy application: python finsy_learning.py ADDRESS DEVICE JSON P4INFO.

It learns addresses by digests, floods what it is sent, and forgets addresses that are idle. It ends
when its standard input does.
"""

import asyncio
import sys
from pathlib import Path

import finsy as fy

PORTS = (1, 2, 3)
IDLE_NS = 300_000_000


async def ready(switch: fy.Switch) -> None:
    await switch.delete_all()
    await switch.insert([fy.P4DigestEntry("seen_t", max_list_size=1, ack_timeout_ns=10**9)])
    for task in (learn, flood, forget):
        switch.create_task(task(switch))
    print("ready", flush=True)


async def learn(switch: fy.Switch) -> None:
    async for digest in switch.read_digests("seen_t"):
        for seen in digest:
            source = fy.P4TableEntry(
                "sources",
                match=fy.Match(address=seen["address"]),
                action=fy.Action("NoAction"),
                idle_timeout_ns=IDLE_NS,
            )
            target = fy.P4TableEntry(
                "targets",
                match=fy.Match(address=seen["address"]),
                action=fy.Action("send", port=seen["port"]),
            )
            await switch.write([+source, +target])
            print("learnt", flush=True)
        await switch.write([digest.ack()])


async def flood(switch: fy.Switch) -> None:
    async for packet in switch.read_packets():
        outs = [
            fy.P4PacketOut(packet.payload, port=port, pad=0)
            for port in PORTS
            if port != packet["port"]
        ]
        await switch.write(outs)


async def forget(switch: fy.Switch) -> None:
    async for idle in switch.read_idle_timeouts():
        for entry in idle:
            target = fy.P4TableEntry("targets", match=entry.match)
            await switch.delete([entry, target])
            print("forgot", flush=True)


async def main(address: str, device: str, program: str, p4info: str) -> None:
    options = fy.SwitchOptions(
        device_id=int(device), p4info=Path(p4info), p4blob=Path(program), ready_handler=ready
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(fy.Controller([fy.Switch("s1", address, options)]).run())
        await asyncio.to_thread(sys.stdin.read)
        running.cancel()


asyncio.run(main(*sys.argv[1:]))
