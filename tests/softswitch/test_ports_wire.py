# SPDX-License-Identifier: Apache-2.0
"""What sits on a wire: faults, captures, buffers and queues; and how ports are written down."""

import resource

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import rdpcap

from softswitch.ports.backlog import Backlog
from softswitch.ports.faults import PATIENCE_S, FaultChain, FaultError, FaultInjector, FaultSpec
from softswitch.ports.frames import Arena, copy_rows, frames_of, join, no_frames
from softswitch.ports.line import Line
from softswitch.ports.memory import MemoryPort
from softswitch.ports.pcap import Capture
from softswitch.ports.port import PortError, PortStats
from softswitch.ports.spec import PortSpec, WireOptions, open_lines

frame_lists = st.lists(st.binary(max_size=80), max_size=30)


def numbered(count, first=0):
    return [b"%05d" % i for i in range(first, first + count)]


@given(frame_lists)
def test_frames_survive_packing_and_copying(items):
    frames = frames_of(items)
    assert list(frames) == items
    assert list(frames.copy()) == items
    assert frames.num_bytes == sum(map(len, items))


@given(frame_lists, frame_lists, st.booleans())
def test_joined_frames_are_all_frames_in_order(first, second, share):
    a, b = frames_of(first), frames_of(second)
    if share:
        both = frames_of(first + second)
        a, b = both.select(slice(len(first))), both.select(slice(len(first), None))
    assert list(join([a, no_frames(), b])) == first + second


@pytest.mark.parametrize("size", [0, 1, 60, 1500, 4096, 9000])
@pytest.mark.parametrize("count", [1, 4, 5, 50])
def test_rows_of_every_size_are_copied(size, count):
    data = np.random.default_rng(1).integers(0, 256, (count, size), dtype=np.uint8)
    source = frames_of([row.tobytes() for row in data])
    target = np.zeros(count * (size + 3), dtype=np.uint8)
    offset = np.arange(count)[::-1] * (size + 3)
    copy_rows(target, offset, source)
    assert (target.reshape(count, size + 3)[::-1, :size] == data).all()
    assert not target.reshape(count, size + 3)[:, size:].any()


def test_an_arena_that_is_too_small_grows_without_losing_what_it_holds():
    arena = Arena(10)
    placed = []
    for item in [b"abcdefgh", b"0123456789" * 5, b"xyz"]:
        frames = arena.place(np.array([len(item)], dtype=np.int32))
        copy_rows(frames.data, frames.offset, frames_of([item]))
        placed.append(frames)
    assert list(join(placed)) == [b"abcdefgh", b"0123456789" * 5, b"xyz"]


def test_a_backlog_is_first_in_first_out_and_bounded():
    backlog = Backlog(limit_bytes=12)
    assert backlog.add(frames_of([b"12345", b"67890"])) == 0
    assert backlog.add(frames_of([b"ab", b"c"])) == 1
    assert backlog.num_bytes == 12
    first = backlog.take()
    backlog.put_back(first.select(slice(1, None)))
    assert [*backlog.take(), *backlog.take()] == [b"67890", b"ab"]
    assert not backlog
    assert backlog.num_bytes == 0


class TestFaults:
    def injector(self, text):
        self.stats = PortStats()
        return FaultInjector(FaultSpec.parse(text), self.stats)

    def test_without_faults_everything_passes(self):
        injector = self.injector("")
        assert list(injector.apply(frames_of(numbered(9)), now=0)) == numbered(9)
        assert injector.deadline is None
        assert self.stats.counts == {}

    def test_drops_are_counted_and_their_share_is_as_asked(self):
        passed = list(self.injector("drop=0.25,seed=1").apply(frames_of(numbered(10_000)), now=0))
        assert self.stats.counts["fault_drop"] == 10_000 - len(passed)
        assert 2300 < self.stats.counts["fault_drop"] < 2700
        assert passed == sorted(passed)

    def test_a_duplicate_follows_its_original(self):
        passed = list(self.injector("duplicate=0.5,seed=1").apply(frames_of(numbered(1000)), now=0))
        assert self.stats.counts["fault_duplicate"] == len(passed) - 1000
        assert passed == sorted(passed)
        assert set(passed) == set(numbered(1000))

    def test_reordered_frames_come_later_and_none_is_lost(self):
        injector = self.injector("reorder=0.1,seed=1")
        passed = []
        for first in range(0, 1000, 10):
            passed += list(injector.apply(frames_of(numbered(10, first)), now=0))
        passed += list(injector.release(PATIENCE_S))
        assert sorted(passed) == numbered(1000)
        assert passed != numbered(1000)
        late = [place - int(frame) for place, frame in enumerate(passed)]
        assert max(late) <= 8 + 2
        assert 50 < self.stats.counts["fault_reorder"] < 150

    def test_a_held_frame_is_released_when_nothing_follows(self):
        injector = self.injector("reorder=1")
        assert list(injector.apply(frames_of([b"only"]), now=10.0)) == []
        assert injector.deadline == pytest.approx(10.0 + PATIENCE_S)
        assert list(injector.release(10.0)) == []
        assert list(injector.release(10.0 + PATIENCE_S)) == [b"only"]
        assert injector.deadline is None

    def test_a_delay_keeps_the_order_and_the_time(self):
        injector = self.injector("delay_ms=5")
        assert list(injector.apply(frames_of([b"a"]), now=1.0)) == []
        assert list(injector.apply(frames_of([b"b"]), now=1.003)) == []
        assert injector.deadline == pytest.approx(1.005)
        assert list(injector.release(1.0051)) == [b"a"]
        assert list(injector.apply(frames_of([b"c"]), now=1.009)) == [b"b"]
        assert list(injector.release(2.0)) == [b"c"]
        assert self.stats.counts["fault_delay"] == 3

    def test_a_corrupted_frame_differs_in_one_bit_and_its_duplicate_in_another(self):
        sent = [bytes(100)] * 500
        injector = self.injector("duplicate=1,corrupt=0.5,seed=1")
        passed = list(injector.apply(frames_of(sent), now=0))
        ones = [int.from_bytes(frame).bit_count() for frame in passed]
        assert len(passed) == 1000
        assert set(ones) == {0, 1}
        assert sum(ones) == self.stats.counts["fault_corrupt"]
        assert 400 < sum(ones) < 600
        assert len({frame for frame in passed if any(frame)}) > 300  # the bit may be any

    def test_only_frames_that_match_are_spoiled(self):
        sent = [bytes([0, kind, number]) for number in range(200) for kind in (1, 2)]
        passed = list(self.injector("drop=0.5,match=1:02").apply(frames_of(sent), now=0))
        assert [frame for frame in passed if frame[1] == 1] == [f for f in sent if f[1] == 1]
        assert 60 < len([frame for frame in passed if frame[1] == 2]) < 140
        assert self.stats.counts["fault_drop"] == len(sent) - len(passed)

    @pytest.mark.parametrize("text", ["match=0:6162+3:64", "match=0:6162,match=3:64"])
    def test_a_frame_matches_with_all_patterns_and_a_short_one_never(self, text):
        sent = [b"abcd", b"abce", b"xbcd", b"ab", b"", b"abcdef"]
        passed = list(self.injector(f"drop=1,{text}").apply(frames_of(sent), now=0))
        assert passed == [b"abce", b"xbcd", b"ab", b""]

    def test_frames_that_do_not_match_pass_those_that_are_late(self):
        injector = self.injector("delay_ms=5,match=0:61")
        assert list(injector.apply(frames_of([b"a", b"b"]), now=1.0)) == [b"b"]
        assert list(injector.release(1.006)) == [b"a"]
        injector = self.injector("reorder=1,match=0:61")
        passed = list(injector.apply(frames_of([b"a", *numbered(10)]), now=0))
        assert passed[0] == b"00000"

    def test_in_a_chain_each_fault_befalls_what_the_one_before_let_pass(self):
        texts = ("drop=1,match=0:61", "delay_ms=5", "duplicate=1,match=0:62")
        self.stats = PortStats()
        chain = FaultChain([FaultSpec.parse(text) for text in texts], self.stats)
        assert list(chain.apply(frames_of([b"a", b"b", b"c"]), now=1.0)) == []
        assert chain.deadline == pytest.approx(1.005)
        assert list(chain.release(1.006)) == [b"b", b"b", b"c"]
        assert chain.deadline is None
        assert self.stats.counts == {"fault_drop": 1, "fault_delay": 2, "fault_duplicate": 1}

    def test_the_seed_decides_everything(self):
        runs = []
        for seed in (7, 7, 8):
            injector = self.injector(f"drop=0.1,duplicate=0.1,reorder=0.1,seed={seed}")
            out = list(injector.apply(frames_of(numbered(500)), now=0))
            runs.append(out + list(injector.release(1)))
        assert runs[0] == runs[1] != runs[2]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("loss=1", "unknown fault 'loss', known are drop, duplicate, corrupt, reorder"),
            ("drop=x", "fault drop='x' is not a number"),
            ("drop", "fault drop='' is not a number"),
            ("drop=1.5", "fault drop=1.5 is not in 0..1"),
            ("delay_ms=-1", "fault delay_ms=-1 is not in 0..inf"),
            ("drop=nan", "fault drop=nan is not in 0..1"),
            ("seed=inf", "fault seed=inf is not in 0..inf"),
            ("match=43", "fault match='43' is not OFFSET:BYTES, such as 43:02"),
            ("match=x:02", "fault match='x:02' is not OFFSET:BYTES"),
            ("match=43:2", "fault match='43:2' is not OFFSET:BYTES"),
        ],
    )
    def test_a_bad_specification_says_what_is_wrong(self, text, message):
        with pytest.raises(FaultError) as error:
            FaultSpec.parse(text)
        assert str(error.value).startswith(message)


def test_a_capture_has_both_directions_as_they_are_on_the_wire(tmp_path):
    port = MemoryPort(4)
    line = Line(
        port,
        capture=Capture(tmp_path, port.name, port.stats),
        rx_faults=FaultChain([FaultSpec(drop=1.0)], port.stats),
    )
    inside, outside = [b"i" * 60, b"j" * 1500], [b"o" * 61, b"p" * 62, b"q" * 61]
    for frame in inside:
        port.inject(frame)
    assert list(line.receive(Arena(), now=0)) == []
    line.send(frames_of(outside), now=0)
    assert port.take_output() == outside
    line.close()
    assert [bytes(p) for p in rdpcap(str(tmp_path / "memory_4_in.pcap"))] == inside
    assert [bytes(p) for p in rdpcap(str(tmp_path / "memory_4_out.pcap"))] == outside


def test_a_capture_on_a_full_disk_ends_after_a_whole_frame_is_said_once_and_counted(
    tmp_path, caplog
):
    port = MemoryPort(4)
    capture = Capture(tmp_path, port.name, port.stats)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (24 + 3 * 116 + 50, limits[1]))
    try:
        capture.received(frames_of([b"i" * 100]))
        capture.received(frames_of([b"j" * 100, b"k" * 100, b"l" * 100, b"m" * 100]))
        capture.received(frames_of([b"n" * 100]))
        capture.sent(frames_of([b"o" * 100]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    capture.close()
    port.close()
    path = tmp_path / "memory_4_in.pcap"
    assert [bytes(p) for p in rdpcap(str(path))] == [b"i" * 100, b"j" * 100, b"k" * 100]
    assert path.stat().st_size == 24 + 3 * 116
    assert port.stats.as_dict()["rx_not_captured"] == 3
    assert "tx_not_captured" not in port.stats.as_dict()
    assert [r.getMessage() for r in caplog.records if r.name == Capture.__module__] == [
        f"capture {path} ends: File too large; packets go on"
    ]


def test_a_memory_port_gives_what_it_got_in_order():
    port = MemoryPort(1)
    for frame in numbered(600):
        port.inject(frame)
    got = []
    while port.has_input:
        got += list(port.receive(Arena()))
    assert got == numbered(600)
    assert len(port.receive(Arena())) == 0
    assert port.stats.as_dict() == {
        "rx_packets": 600,
        "rx_bytes": 3000,
        "tx_packets": 0,
        "tx_bytes": 0,
    }
    port.close()


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("1@veth1", PortSpec(1, "veth1")),
        ("12@udp:127.9.9.1:17710", PortSpec(12, "udp:127.9.9.1:17710")),
        ("510@memory", PortSpec(510, "memory")),
    ],
)
def test_ports_are_written_as_in_bmv2(text, spec):
    assert PortSpec.parse(text) == spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("veth1", "port 'veth1' is not NUMBER@INTERFACE"),
        ("x@veth1", "port 'x@veth1' is not NUMBER@INTERFACE"),
        ("1@", "port '1@' is not NUMBER@INTERFACE"),
        ("511@veth1", "port number 511 is not in 0..510"),
    ],
)
def test_a_port_written_wrongly_is_refused(text, message):
    with pytest.raises(PortError, match=message.replace("(", r"\(")):
        PortSpec.parse(text)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["1@memory", "2@memory", "1@memory"], "port number 1 is given 2 times"),
        (["1@udp:127.9.9.1"], "port 1: 'udp:127.9.9.1' is not udp:ADDRESS:PORT"),
        (["1@udp:127.9.9.1:99999"], "port 1: 'udp:127.9.9.1:99999' is not udp:ADDRESS:PORT"),
        (["1@memory", "2@nonesuch0"], "port 2: there is no interface 'nonesuch0'"),
        (["1@lo", "2@memory", "3@lo"], "ports 1 and 3: 'lo' and 'lo' are one interface"),
        (["1@udp:127.9.3.1:17719", "2@udp:127.9.3.1:17719"], "port 2: cannot bind"),
    ],
)
def test_ports_are_opened_all_or_none(texts, message):
    specs = [PortSpec.parse(text) for text in texts]
    with pytest.raises(PortError, match=message):
        open_lines(specs, WireOptions())
    open_lines([PortSpec.parse("1@udp:127.9.3.1:17719")], WireOptions())[0].close()


def test_a_capture_directory_that_is_missing_is_made(tmp_path):
    options = WireOptions(pcap_dir=tmp_path / "missing" / "too")
    open_lines([PortSpec(1, "memory")], options)[0].close()
    names = [path.name for path in sorted(options.pcap_dir.iterdir())]
    assert names == ["memory_1_in.pcap", "memory_1_out.pcap"]


def test_a_capture_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    options = WireOptions(pcap_dir=tmp_path / "file" / "folder")
    with pytest.raises(PortError, match=r"cannot make the folder .*file/folder: Not a"):
        open_lines([PortSpec(1, "memory")], options)
