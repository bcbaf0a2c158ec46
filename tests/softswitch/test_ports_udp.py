# SPDX-License-Identifier: Apache-2.0
"""UDP ports on real loopback sockets: what comes in as a frame and what goes out as a datagram."""

import errno
import socket
import time

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from softswitch.ports import sender
from softswitch.ports.frames import Arena, Frames, frames_of
from softswitch.ports.headers import Flow, write_headers
from softswitch.ports.port import PortError
from softswitch.ports.udp import UdpPort
from softswitch.ports.udp_receive import MAX_PAYLOAD
from softswitch.ports.udp_send import RunBuffers

SOL_UDP, UDP_SEGMENT = 17, 103
PORT_ADDRESS = "127.9.1.1"
HOST_ADDRESS = "127.9.1.100"


@pytest.fixture(params=[True, False], ids=["offload", "plain"])
def port(request):
    opened = UdpPort(1, (PORT_ADDRESS, 0), offload=request.param)
    yield opened
    opened.close()


@pytest.fixture
def host():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind((HOST_ADDRESS, 0))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        opened.settimeout(2)
        yield opened


def receive(port, count, arena=None):
    """Everything up to `count` frames, as bytes."""
    frames = []
    end = time.monotonic() + 2
    while len(frames) < count and time.monotonic() < end:
        frames += list(port.receive(arena or Arena()))
    return frames


def frame_to(host, payload, **ip):
    address, number = host.getsockname()
    packet = Ether() / IP(src="10.0.0.1", dst=address, **ip) / UDP(sport=7, dport=number)
    return bytes(packet / Raw(payload))


def send_run(host, port, payload, size):
    control = [(SOL_UDP, UDP_SEGMENT, size.to_bytes(2, "little"))]
    host.sendmsg([payload], control, 0, port.address)


def test_a_datagram_comes_in_as_a_frame_with_the_true_addresses(port, host):
    host.sendto(b"hello", port.address)
    [frame] = receive(port, 1)
    packet = Ether(frame)
    assert packet.src == "02:00:7f:09:01:64"
    assert packet.dst == "02:00:7f:09:01:01"
    assert (packet[IP].src, packet[IP].dst) == (HOST_ADDRESS, PORT_ADDRESS)
    assert (packet[UDP].sport, packet[UDP].dport) == (host.getsockname()[1], port.address[1])
    assert packet[UDP].chksum == 0
    assert bytes(packet[UDP].payload) == b"hello"


def test_headers_are_those_scapy_would_build(port, host):
    host.sendto(b"x" * 999, port.address)
    [frame] = receive(port, 1)
    rebuilt = Ether(frame)
    rebuilt[IP].chksum = rebuilt[IP].len = rebuilt[UDP].len = None
    assert bytes(rebuilt) == frame


def test_headers_written_in_bulk_are_those_of_a_port(port, host):
    host.sendto(b"x" * 99, port.address)
    host.sendto(b"y" * 7, port.address)
    received = receive(port, 2)
    frames = frames_of([bytes(42) + frame[42:] for frame in received])

    def wire(address):
        ip, number = address
        parts = (socket.inet_aton(ip), number.to_bytes(2, "big"))
        return (np.frombuffer(part, dtype=np.uint8) for part in parts)

    write_headers(frames, Flow(*wire(host.getsockname()), *wire(port.address)))
    assert list(frames) == received


def test_runs_and_single_datagrams_come_in_order(port, host):
    payloads = [bytes([i]) * 100 for i in range(7)] + [b"short"]
    send_run(host, port, b"".join(payloads), 100)
    host.sendto(b"", port.address)
    host.sendto(b"z" * MAX_PAYLOAD, port.address)
    received = receive(port, 10)
    assert [frame[42:] for frame in received] == [*payloads, b"", b"z" * MAX_PAYLOAD]
    assert port.stats.rx_packets == 10
    assert port.stats.rx_bytes == sum(map(len, received))


def test_an_oversized_datagram_is_counted_and_nothing_else_is_lost(port, host):
    host.sendto(b"a" * (MAX_PAYLOAD + 1), port.address)
    host.sendto(b"b", port.address)
    assert [frame[42:] for frame in receive(port, 1)] == [b"b"]
    assert port.stats.as_dict()["rx_too_big"] == 1


def test_receive_without_datagrams_gives_no_frames(port):
    assert len(port.receive(Arena())) == 0


def test_frames_go_out_as_datagrams_of_the_sockets_address(port, host):
    payloads = [b"a" * 300] * 100 + [b"b" * 7, b"", b"c" * 300, b"d" * 301, b"", b"e"]
    port.send(frames_of([frame_to(host, payload) for payload in payloads]))
    received = [host.recvfrom(2000) for _ in payloads]
    assert received == [(payload, port.address) for payload in payloads]
    assert port.stats.tx_packets == len(payloads)
    assert port.stats.tx_bytes == sum(42 + len(payload) for payload in payloads)


def test_interleaved_destinations_each_get_theirs_in_order(port, host):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.9.1.101", 0))
        other.settimeout(2)
        numbered = [b"%03d" % i for i in range(40)]
        frames = [frame_to([host, other][i // 3 % 2], numbered[i]) for i in range(40)]
        port.send(frames_of(frames))
        to_host = [p for i, p in enumerate(numbered) if i // 3 % 2 == 0]
        to_other = [p for i, p in enumerate(numbered) if i // 3 % 2 == 1]
        assert [host.recv(100) for _ in to_host] == to_host
        assert [other.recv(100) for _ in to_other] == to_other


def test_large_datagrams_go_out_in_runs_that_fit_an_ip_packet(port, host):
    payloads = [bytes([i]) * 8228 for i in range(20)]
    port.send(frames_of([frame_to(host, payload) for payload in payloads]))
    assert [host.recv(9000) for _ in payloads] == payloads


def test_padding_behind_the_ip_packet_is_not_sent(port, host):
    port.send(frames_of([frame_to(host, b"ab") + bytes(16)]))
    assert host.recv(100) == b"ab"


def test_frames_that_no_udp_socket_can_send_are_counted_and_dropped(port, host):
    good = frame_to(host, b"good")
    bad_udp_length = bytearray(good)
    bad_udp_length[39] += 1
    broken = [
        b"",
        good[:41],
        bytes(Ether() / IP(dst=HOST_ADDRESS) / TCP()),
        bytes(Ether(type=0x86DD) / Raw(bytes(60))),
        frame_to(host, b"fragment", flags="MF"),
        frame_to(host, b"fragment", frag=3),
        good[:-1],
        bytes(bad_udp_length),
        bytes(Ether() / IP(dst=HOST_ADDRESS) / UDP(dport=0)),
    ]
    port.send(frames_of([*broken, good]))
    assert host.recv(100) == b"good"
    assert port.stats.as_dict()["tx_not_udp"] == len(broken)
    assert port.stats.tx_packets == 1


def test_a_wrong_ip_checksum_is_counted_and_the_frame_dropped(port, host):
    frame = bytearray(frame_to(host, b"x"))
    frame[24] ^= 1
    port.send(frames_of([bytes(frame)]))
    assert port.stats.as_dict()["tx_bad_checksum"] == 1
    assert port.stats.tx_packets == 0


def test_a_closed_destination_does_not_disturb_the_others(port, host):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.9.1.102", 0))
        to_gone = frame_to(gone, b"lost")
    for _ in range(3):
        port.send(frames_of([to_gone, frame_to(host, b"kept")]))
        assert host.recv(100) == b"kept"
    assert receive(port, 0) == []


class Kernel:
    """Stands between `send_all` and sendmmsg: fails as told, then passes on."""

    def __init__(self, monkeypatch, failures):
        self.failures = failures
        self.real = sender.send_messages
        monkeypatch.setattr(sender, "send_messages", self)

    def __call__(self, fd, address, count):
        failure = self.failures.pop(0) if self.failures else 0
        if failure:
            raise OSError(failure, "as told")
        return self.real(fd, address, count)


def test_what_the_kernel_has_no_room_for_waits_in_order(port, host, monkeypatch):
    Kernel(monkeypatch, [errno.EAGAIN, 0])
    port.send(frames_of([frame_to(host, b"1"), frame_to(host, b"22")]))
    assert port.backlog > 0
    port.send(frames_of([frame_to(host, b"333")]))
    assert port.stats.tx_packets == 0
    port.flush()
    assert [host.recv(100) for _ in range(3)] == [b"1", b"22", b"333"]
    assert port.backlog == 0
    assert port.stats.as_dict() == port.stats.as_dict() | {"tx_packets": 3, "tx_bytes": 3 * 42 + 6}


def test_a_full_queue_drops_the_newest_and_counts_them(host, monkeypatch):
    frames = [frame_to(host, bytes([i]) * 58) for i in range(5)]
    port = UdpPort(1, (PORT_ADDRESS, 0), backlog_bytes=399)
    Kernel(monkeypatch, [errno.EAGAIN])
    port.send(frames_of(frames))
    port.flush()
    assert [host.recv(100)[0] for _ in range(3)] == [0, 1, 2]
    assert port.stats.as_dict()["tx_queue_full"] == 2
    port.close()


def test_an_error_costs_the_frames_of_its_message_only(port, host, monkeypatch):
    Kernel(monkeypatch, [errno.ECONNREFUSED, errno.EPERM, 0])
    port.send(frames_of([frame_to(host, b"1"), frame_to(host, b"22"), frame_to(host, b"333")]))
    assert host.recv(100) == b"333"
    counted = port.stats.as_dict()
    assert (counted["tx_refused"], counted["tx_error"], counted["tx_packets"]) == (1, 1, 1)
    assert counted["tx_bytes"] == 45


def test_a_run_the_route_cannot_cut_is_sent_frame_by_frame(host, monkeypatch):
    port = UdpPort(1, (PORT_ADDRESS, 0))
    Kernel(monkeypatch, [errno.EINVAL])
    port.send(frames_of([frame_to(host, b"%d" % i) for i in range(5)]))
    assert [host.recv(100) for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
    assert port.stats.as_dict() == port.stats.as_dict() | {"tx_packets": 5, "tx_bytes": 5 * 43}
    port.close()


def runs_of(host, sizes, max_segments=64):
    """How many frames each message has."""
    frames = frames_of([frame_to(host, bytes(size)) for size in sizes])
    return np.diff(RunBuffers(4).gather(frames, max_segments).first).tolist()


def test_runs_start_where_the_size_grows_or_after_a_shorter_one(host):
    assert runs_of(host, [9, 9, 5, 9, 9, 10, 10, 0, 0, 4, 3, 3, 2]) == [3, 2, 2, 1, 1, 2, 2]


def test_runs_are_not_longer_than_the_kernel_allows(host):
    assert runs_of(host, [10] * 200) == [64, 64, 64, 8]
    assert runs_of(host, [9000] * 10) == [7, 3]
    assert runs_of(host, [10] * 4, max_segments=1) == [1, 1, 1, 1]


def test_datagrams_the_socket_had_no_room_for_are_counted():
    port = UdpPort(1, (PORT_ADDRESS, 0))
    port._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender_socket:
        for _ in range(100):
            sender_socket.sendto(bytes(1000), port.address)
    port.count_kernel_drops()
    assert port.stats.as_dict()["rx_kernel_dropped"] > 50
    port.close()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (("127.9.1.1", None), "port 3: cannot bind udp:127.9.1.1:{port}: address already in use"),
        (("198.51.100.7", 5), "port 3: cannot bind udp:198.51.100.7:5: cannot assign requested"),
        (("nowhere", 5), "port 3: 'nowhere' is not an IPv4 address"),
    ],
)
def test_a_port_that_cannot_be_bound_says_why(address, message):
    taken = UdpPort(1, (PORT_ADDRESS, 0))
    host, number = address
    with pytest.raises(PortError) as error:
        UdpPort(3, (host, taken.address[1] if number is None else number))
    assert str(error.value).startswith(message.format(port=taken.address[1]))
    taken.close()


def test_the_same_buffer_can_be_used_for_many_batches(port, host):
    arena = Arena(1000)
    for i in range(20):
        host.sendto(bytes([i]) * 400, port.address)
        arena.clear()
        assert receive(port, 1, arena)[0][42:] == bytes([i]) * 400


def test_frames_in_any_order_of_a_buffer_are_sent_as_listed(port, host):
    packed = frames_of([frame_to(host, b"%d" % i) for i in range(6)])
    order = np.array([5, 0, 3, 3])
    port.send(Frames(packed.data, packed.offset[order], packed.length[order]))
    assert [host.recv(10) for _ in range(4)] == [b"5", b"0", b"3", b"3"]
