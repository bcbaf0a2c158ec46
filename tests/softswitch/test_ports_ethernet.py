# SPDX-License-Identifier: Apache-2.0
"""Ethernet ports on a veth pair in a network namespace of their own."""

import os
import socket
import time

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from softswitch.dataplane import DataPlane
from softswitch.ports.checksum import complete_checksums
from softswitch.ports.ethernet import EthernetPort
from softswitch.ports.frames import Arena, frames_of
from softswitch.ports.links import Links
from softswitch.ports.port import PortError
from softswitch.ports.spec import PortSpec, WireOptions, open_lines
from tests import namespaces

MTU = 9000
MAC = "02:00:00:00:00:01"
needs_namespaces = pytest.mark.skipif(
    namespaces.why_not() is not None, reason=namespaces.why_not() or ""
)


@pytest.fixture
def namespace():
    with namespaces.namespace(f"incmoe-eth-{os.getpid()}") as name:
        namespaces.add_veth(name, "s1", "h1", mtu=MTU)
        yield name


@pytest.fixture
def port(namespace):
    opened = namespaces.inside(namespace, EthernetPort, 1, "s1")
    yield opened
    opened.close()


@pytest.fixture
def taps(namespace, port):
    opened = namespaces.Taps(namespace, {1: "h1"})
    yield opened
    opened.close()


def receive(port, count):
    frames, end = [], time.monotonic() + 2
    while len(frames) < count and time.monotonic() < end:
        frames += list(port.receive(Arena()))
    return frames


def frames(count, size=100):
    return [
        bytes(Ether(dst="02:00:00:00:00:01", type=0x1234) / Raw(bytes([i]) * size))
        for i in range(count)
    ]


@pytest.mark.root
@needs_namespaces
class TestVeth:
    def test_frames_come_in_whole_and_in_order(self, port, taps):
        sent = [*frames(10), *frames(3, size=MTU), *frames(2, size=46)]
        for frame in sent:
            taps.send(1, frame)
        assert receive(port, len(sent)) == sent
        assert port.stats.rx_packets == len(sent)
        assert port.stats.rx_bytes == sum(map(len, sent))

    def test_frames_for_other_hosts_come_in_too(self, port, taps):
        stranger = bytes(Ether(dst="02:99:99:99:99:99", type=0x1234) / Raw(bytes(50)))
        taps.send(1, stranger)
        assert receive(port, 1) == [stranger]

    @pytest.mark.parametrize("tags", ["8100 2007", "88a8 0064 8100 a123"])
    def test_vlan_tags_stay_in_the_frame(self, port, taps, tags):
        """The kernel takes the outer one out on its way."""
        addresses, rest = bytes.fromhex("020000000001 020000000002"), b"\x12\x34" + bytes(range(60))
        tagged = addresses + bytes.fromhex(tags)
        sent = [tagged + rest, addresses + rest, tagged.ljust(MTU + 14, b"z")]
        for frame in sent:
            taps.send(1, frame)
        assert receive(port, 3) == sent
        assert port.stats.rx_bytes == sum(map(len, sent))
        port.send(frames_of(sent))
        assert taps.take(quiet_s=0.05)[1][1] == sent[1]

    def test_frames_go_out_whole_and_in_order(self, port, taps):
        sent = [*frames(200), *frames(3, size=MTU)]
        port.send(frames_of(sent))
        assert taps.take(quiet_s=0.05) == {1: sent}
        assert port.stats.tx_packets == len(sent)
        assert port.stats.tx_bytes == sum(map(len, sent))

    def test_what_goes_out_does_not_come_back_in(self, port, taps):
        port.send(frames_of(frames(5)))
        taps.take(quiet_s=0.05)
        assert receive(port, 0) == []
        assert len(port.receive(Arena())) == 0

    def test_a_frame_above_the_mtu_is_counted_and_the_next_is_sent(self, port, taps):
        [big] = frames(1, size=MTU + 100)
        [small] = frames(1)
        port.send(frames_of([big, small]))
        assert taps.take(quiet_s=0.05) == {1: [small]}
        counted = port.stats.as_dict()
        assert (counted["tx_too_big"], counted["tx_packets"]) == (1, 1)
        assert counted["tx_bytes"] == len(small)

    def test_a_frame_too_short_for_ethernet_is_counted(self, port, taps):
        port.send(frames_of([b"", b"short", *frames(1)]))
        assert taps.take(quiet_s=0.05) == {1: frames(1)}
        assert port.stats.as_dict()["tx_error"] == 2

    @pytest.mark.parametrize("num_bytes", [9_500, 12_000, 40_000])
    def test_a_run_that_was_not_cut_is_dropped_and_counted(self, namespace, port, num_bytes):
        send_datagram(namespace, bytes(num_bytes), segment=1000)
        send_datagram(namespace, b"after it")
        [frame] = receive(port, 1)
        assert frame.endswith(b"after it")
        assert port.stats.as_dict()["rx_too_big"] == 1
        assert "rx_truncated" not in port.stats.as_dict()

    def test_a_checksum_left_to_the_interface_is_completed(self, namespace, port):
        send_datagram(namespace, b"payload")
        [frame] = receive(port, 1)
        packet = Ether(frame)
        found = packet[UDP].chksum
        packet[UDP].chksum = None
        assert Ether(bytes(packet))[UDP].chksum == found

    def test_an_mtu_that_grows_later_is_noticed(self, namespace, port, taps):
        for end in ("h1", "s1"):
            namespaces.ip("-n", namespace, "link", "set", end, "mtu", str(MTU + 500))
        [frame] = frames(1, size=MTU + 400)
        taps.send(1, frame)
        assert receive(port, 1) == [frame]

    def test_an_mtu_that_grows_beyond_the_ring_costs_a_frame_and_makes_another(
        self, namespace, port, taps
    ):
        for end in ("h1", "s1"):
            namespaces.ip("-n", namespace, "link", "set", end, "mtu", str(2 * MTU))
        lost, sent = frames(2, size=2 * MTU)
        taps.send(1, lost)
        assert receive(port, 0) == []
        assert list(port.receive(Arena())) == []
        assert port.stats.as_dict()["rx_truncated"] == 1
        taps.send(1, sent)
        assert receive(port, 1) == [sent]

    def test_more_frames_than_the_ring_has_room_for_are_counted_and_the_rest_comes(
        self, port, taps
    ):
        sent = frames(1, size=MTU)
        for _ in range(3000):
            taps.send(1, sent[0])
        [got] = set(receive(port, 3000))
        assert got == sent[0]
        port.count_kernel_drops()
        port.count_kernel_drops()
        counted = port.stats.as_dict()
        assert counted["rx_kernel_dropped"] > 0
        assert counted["rx_packets"] + counted["rx_kernel_dropped"] == 3000
        taps.send(1, frames(2)[1])
        assert receive(port, 1) == [frames(2)[1]]  # the ring goes round

    def test_an_interface_that_goes_down_is_counted_and_does_not_spin(self, namespace, port):
        namespaces.ip("-n", namespace, "link", "set", "s1", "down")
        time.sleep(0.05)
        for _ in range(3):
            assert len(port.receive(Arena())) == 0
        assert port.stats.as_dict()["rx_error"] == 1
        port.send(frames_of(frames(2)))
        assert port.stats.as_dict()["tx_error"] == 2
        namespaces.ip("-n", namespace, "link", "set", "s1", "up")


def send_datagram(namespace, payload, segment=0):
    """From the namespace's own stack, out of h1, to an address that lives behind s1."""
    namespaces.ip("-n", namespace, "address", "replace", "10.9.0.1/24", "dev", "h1")

    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as host:
            if segment:
                host.setsockopt(17, 103, segment)
            host.sendto(payload, ("10.9.0.2", 17710))

    namespaces.inside(namespace, send)


@pytest.mark.root
@needs_namespaces
def test_an_unknown_interface_is_named():
    with pytest.raises(PortError, match="port 7: there is no interface 'nonesuch0'"):
        EthernetPort(7, "nonesuch0")


def left_to_interface(packet, layer):
    """The packet as a sender leaves it: the field holds the sum of the pseudo header."""
    whole = bytes(packet)
    at = whole.index(bytes(packet[layer])) + (6 if layer is UDP else 16)
    transport = bytes(packet[layer])
    true = int.from_bytes(whole[at : at + 2], "big")
    rest = transport[: 6 if layer is UDP else 16] + transport[8 if layer is UDP else 18 :]
    rest += bytes(len(rest) % 2)
    total = sum(int.from_bytes(rest[i : i + 2], "big") for i in range(0, len(rest), 2))
    pseudo = (0xFFFF - true - total) % 0xFFFF
    return whole[:at] + pseudo.to_bytes(2, "big") + whole[at + 2 :]


@pytest.mark.parametrize("size", [0, 1, 2, 99, 1000])
@pytest.mark.parametrize("layer", [UDP, TCP])
@pytest.mark.parametrize("network", [IP(src="10.0.0.1", dst="10.0.0.2"), IPv6(dst="fe80::1")])
def test_checksums_are_completed_as_the_standard_says(network, layer, size):
    packet = Ether(
        bytes(Ether(src=MAC, dst=MAC) / network / layer() / Raw((bytes(range(256)) * 4)[:size]))
    )
    padded = bytes(packet) + bytes(10)
    partial = left_to_interface(packet, layer)
    other = frames_of([partial, b"\x00" * 60, partial + bytes(10), b"x", partial])
    complete_checksums(other)
    assert list(other) == [bytes(packet), b"\x00" * 60, padded, b"x", bytes(packet)]


@pytest.mark.parametrize("tags", [[1], [1, 2]])
def test_checksums_behind_vlan_tags_are_completed(tags):
    network = IP(src="10.0.0.1", dst="10.0.0.2")
    plain = Ether(bytes(Ether(src=MAC, dst=MAC) / network / UDP() / Raw(b"some payload")))

    def tagged(frame):
        shims = b"".join(b"\x81\x00" + tag.to_bytes(2, "big") for tag in tags)
        return frame[:12] + shims + frame[12:]

    partial = left_to_interface(plain, UDP)
    mixed = frames_of([tagged(partial), partial])
    complete_checksums(mixed)
    assert list(mixed) == [tagged(bytes(plain)), bytes(plain)]


@pytest.fixture
def plane(namespace):
    """A data plane that sends what comes by port 1 back, in the namespace, and its links."""

    def start():
        lines = open_lines([PortSpec(1, "s1")], WireOptions())
        made = DataPlane(lines, frames_per_batch=100)
        links = Links([lines[0].port], made.call)
        made.process = lambda batch: batch
        made.start()
        links.start(lambda: None)
        return made, links

    made, links = namespaces.inside(namespace, start)
    yield made
    links.close()
    made.stop()


def said(caplog, *lines):
    """Waits until the log has so many lines of interfaces; whether they are these."""
    prefix = "port 1: the interface s1 is "
    end = time.monotonic() + 3
    while time.monotonic() < end:
        found = [r.getMessage() for r in caplog.records if r.name.endswith("ports.ethernet")]
        if len(found) >= len(lines):
            break
        time.sleep(0.01)
    time.sleep(0.1)
    return found == [prefix + line for line in lines]


def echoes(name):
    """What the plane sends back of a few frames."""
    taps = namespaces.Taps(name, {1: "h1"})
    try:
        for frame in frames(3):
            taps.send(1, frame)
        return taps.take(quiet_s=0.3)
    finally:
        taps.close()


@pytest.mark.root
@needs_namespaces
class TestLinks:
    def test_an_interface_that_goes_and_comes_is_said_once_each(self, namespace, plane, caplog):
        namespaces.ip("-n", namespace, "link", "set", "s1", "down")
        assert said(caplog, "down")
        namespaces.ip("-n", namespace, "link", "set", "s1", "up")
        assert said(caplog, "down", "up again")
        assert echoes(namespace) == {1: frames(3)}

    def test_so_is_its_other_end(self, namespace, plane, caplog):
        namespaces.ip("-n", namespace, "link", "set", "h1", "down")
        assert said(caplog, "without a carrier")
        namespaces.ip("-n", namespace, "link", "set", "h1", "up")
        assert said(caplog, "without a carrier", "up again")

    def test_one_that_vanishes_is_the_ports_again_when_there_is_a_new_one(
        self, namespace, plane, caplog
    ):
        namespaces.ip("-n", namespace, "link", "delete", "s1")
        assert said(caplog, "down", "gone") or said(caplog, "gone")
        before = len(caplog.records)
        namespaces.add_veth(namespace, "s1", "h1", mtu=MTU)
        end = time.monotonic() + 3
        while len(caplog.records) == before and time.monotonic() < end:
            time.sleep(0.01)
        assert caplog.records[-1].getMessage() == "port 1: the interface s1 is up again"
        assert echoes(namespace) == {1: frames(3)}

    def test_one_that_is_down_from_the_start_is_said(self, namespace, caplog):
        namespaces.ip("-n", namespace, "link", "set", "s1", "down")
        [line] = namespaces.inside(namespace, open_lines, [PortSpec(1, "s1")], WireOptions())
        links = namespaces.inside(namespace, Links, [line.port], lambda look: look())
        assert links.down == {1}
        links.close()
        line.close()
        assert said(caplog, "down")

    def test_two_ports_of_one_interface_are_refused_whatever_its_name(self, namespace):
        namespaces.ip("-n", namespace, "link", "property", "add", "dev", "s1", "altname", "s1too")
        specs = [PortSpec(1, "s1"), PortSpec(2, "h1"), PortSpec(7, "s1too")]
        with pytest.raises(PortError, match="ports 1 and 7: 's1' and 's1too' are one interface"):
            namespaces.inside(namespace, open_lines, specs, WireOptions())
