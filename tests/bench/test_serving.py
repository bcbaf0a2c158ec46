# SPDX-License-Identifier: Apache-2.0
"""bench.serving's layers without overlap over loopback, its figures and its traces; no links."""

import json
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from bench.collectives.cluster import Ran
from bench.collectives.links import Moved
from bench.collectives.mesh import Mesh
from bench.collectives.plan import GLOO, RING, ROUTED, STATIC
from bench.experts import random_experts
from bench.serving import order, timeline
from bench.serving.baseline import SequentialMoE
from bench.serving.exchange import AllToAll, GatherScatter, Rings
from bench.serving.figures import figures
from bench.serving.pipeline import PARTS
from bench.serving.plan import Plan, Prompts
from bench.serving.rows import Packing, Rows
from bench.serving.run import Outcome
from bench.serving.serving import Served, must_agree
from host_agent.bands import Placement
from host_agent.moe import LocalExperts, Span, Stage, Trace
from incmoe.demo.errors import DemoError
from incmoe.demo.generation import Generation
from incmoe.model import Shape, load

RANKS, TOKENS, HIDDEN, EXPERTS, TOP_K = 3, 5, 16, 6, 2
PLACEMENT = Placement.even(EXPERTS, RANKS)
PACKING = Packing(HIDDEN, TOP_K, EXPERTS)
UP, DOWN = random_experts(EXPERTS, HIDDEN, 8, generator=torch.Generator().manual_seed(0))


def tokens_of(rank):
    """A rank's rows, expert ids and gate weights; rank 0 needs only itself."""
    generator = torch.Generator().manual_seed(1 + rank)
    scores = torch.rand(TOKENS, EXPERTS, generator=generator)
    if rank == 0:
        scores[:, 2:] = 0
    weights, ids = scores.topk(TOP_K)
    return torch.randn(TOKENS, HIDDEN, generator=generator), ids, weights


def served_alone(hidden, ids, weights):
    """What all experts in one place make of rows."""
    rows = Rows(hidden, ids.numpy().astype(np.int32), weights.numpy())
    return LocalExperts(UP, DOWN)(hidden, rows.pairs(0, Placement.even(EXPERTS, 1)))


def exchanges(mesh, rank):
    return [
        GatherScatter(Rings(mesh, rank, RANKS), PACKING),
        AllToAll(mesh, PACKING, PLACEMENT, rank),
    ]


@pytest.mark.parametrize("which", [0, 1], ids=["ring", "all_to_all"])
def test_a_layer_without_overlap_gives_what_all_experts_in_one_place_give(which):
    prefix = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}"
    ips = [f"{prefix}.{rank + 1}" for rank in range(RANKS)]

    def run(rank):
        mesh = Mesh(rank, ips)
        mine = torch.from_numpy(PLACEMENT.experts_of(rank))
        layer = SequentialMoE(4, LocalExperts(UP[mine], DOWN[mine]), PLACEMENT, rank)
        layer.exchange = exchanges(mesh, rank)[which]
        outputs = [layer(*tokens_of(rank)) for _ in range(2)]
        mesh.close()
        return outputs, layer.last_trace

    with ThreadPoolExecutor(RANKS) as pool:
        for rank, (outputs, trace) in enumerate(pool.map(run, range(RANKS))):
            for output in outputs:
                torch.testing.assert_close(output, served_alone(*tokens_of(rank)))
            assert [span.stage for span in trace.spans] == [Stage.GATHER, Stage.FFN, Stage.REDUCE]
            assert (trace.rank, trace.call, trace.layer) == (rank, 1, 4)
            assert trace.overlap() == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(("num_experts", "width"), [(256, HIDDEN + 3 + 1), (300, HIDDEN + 3 + 2)])
def test_packed_rows_come_out_as_they_went_in(num_experts, width):
    generator = np.random.default_rng(0)
    x = torch.randn(TOKENS, HIDDEN)
    ids = generator.integers(num_experts, size=(TOKENS, 3)).astype(np.int32)
    weights = generator.random((TOKENS, 3), np.float32)
    packing = Packing(HIDDEN, 3, num_experts)
    packed = packing.pack(Rows(x, ids, weights))
    assert packed.shape == (TOKENS, width)
    found = packing.unpack(packed)
    assert torch.equal(found.x, x)
    assert np.array_equal(found.ids, ids)
    assert np.array_equal(found.weights, weights)


def test_renumbering_experts_changes_no_output():
    model = load(Shape(hidden=32, heads=2, experts=8, top_k=2, intermediate=8))
    ids = torch.arange(24).reshape(2, 12)
    with torch.inference_mode():
        before = model(input_ids=ids).logits
        order.renumber(model, [np.roll(np.arange(8), shift) for shift in (1, 3)])
        torch.testing.assert_close(model(input_ids=ids).logits, before)


def generation(tokens, logit=0.0):
    return Generation(np.zeros((1, 2)), np.array([tokens]), np.full((1, 2, 4), logit, np.float32))


def test_other_tokens_or_logits_than_the_whole_model_s_end_the_run():
    assert must_agree("ring", generation([1, 2], 1e-4), generation([1, 2])) < 2e-4
    with pytest.raises(AssertionError, match="ring: 1 of 2 tokens"):
        must_agree("ring", generation([1, 3]), generation([1, 2]))
    with pytest.raises(AssertionError, match=r"ring: a logit is off by 0\.5"):
        must_agree("ring", generation([1, 2], 0.5), generation([1, 2]))


def test_prompts_are_named_by_batch_and_tokens():
    assert str(Prompts.parse("16x24")) == "16x24"
    for bad in ("16", "x24", "16x", "0x24", "16x1", "16x24x2", "-1x2"):
        with pytest.raises(DemoError, match=f"--prompts {bad}: BATCHxTOKENS"):
            Prompts.parse(bad)


SHAPE = Shape(hidden=250_000, heads=1, layers=1)  # a row is a megabyte, and needs a second


def outcome(first_s, all_s, **options):
    """A run with these times to the first and to the last token, by scheme; links of 1 MB/s."""
    plan = Plan(
        rate_bits_s=8_000_000,
        prompts=(Prompts(1, 4),),
        new_tokens=3,
        schemes=(STATIC, ROUTED, RING, GLOO),
        **options,
    )
    found = Outcome(plan, SHAPE)
    for scheme in plan.schemes:
        found.served[scheme, "1x4"] = [ran(first_s[scheme], all_s[scheme]) for _ in range(5)]
    for scheme in (STATIC, ROUTED):
        for part, seconds in zip(PARTS, (11.0, 10.0, 2.0), strict=True):
            found.pipelines[scheme, part] = [ran(seconds, seconds)]
    return found


def ran(first_s, all_s):
    told = {"began": 1.0, "first": 1 + first_s, "ended": 1 + all_s, "cpu_s": 0.1, "moving_s": 1.0}
    told |= {"repairs": 0, "logit_difference": 0.0}
    return Ran((told,), (Moved(1000, 900, 0),), 0.1)


FIRST_S = {STATIC: 18.0, ROUTED: 12.0, RING: 30.0, GLOO: 40.0}
ALL_S = {STATIC: 27.0, ROUTED: 24.0, RING: 42.0, GLOO: 60.0}


def test_figures_have_the_names_and_limits_of_the_claim():
    found = {one.name: one for one in figures(outcome(FIRST_S, ALL_S))}
    claimed = {
        "ttft_over_ring": (12 / 30, 0.67),
        "throughput_over_ring": (42 / 24, 1.5),
        "ttft_over_gloo": (12 / 40, 0.62),
        "throughput_over_gloo": (60 / 24, 1.6),
        "pipeline_over_max_stage": (1.1, 1.10),
    }
    assert {name: (found[name].value, found[name].limit) for name in claimed} == {
        name: (pytest.approx(value), limit) for name, (value, limit) in claimed.items()
    }
    assert found["ttft_over_ring_static_1x4"].value == pytest.approx(18 / 30)
    assert found["routed_throughput_1x4"].value == pytest.approx(4 * 7 / 24)
    assert found["routed_decode_1x4"].value == pytest.approx(4 * 2 / 12)
    assert found["ring_link_share_ttft_1x4"].value == pytest.approx(24 / 30)  # 2 (N-1) M
    assert found["ring_link_share_throughput_1x4"].value == pytest.approx(36 / 42)


def test_nothing_is_claimed_where_links_take_less_than_half_of_the_ring_s_time():
    found = {one.name for one in figures(outcome(FIRST_S | {RING: 49.0}, ALL_S | {RING: 71.0}))}
    assert "ttft_over_ring_routed_1x4" in found
    assert "ttft_over_ring" not in found
    assert "throughput_over_ring" in found  # 36 of 71 s


def test_figures_of_bmv2_say_so():
    names = {one.name for one in figures(outcome(FIRST_S, ALL_S, switch="bmv2"))}
    assert {"ttft_over_ring_bmv2", "pipeline_over_max_stage_bmv2"} <= names
    assert "ttft_over_ring" not in names


def test_traces_of_all_ranks_and_schemes_are_one_chrome_trace(tmp_path):
    spans = [Span(Stage.GATHER, 0, 10.0, 10.5), Span(Stage.FFN, 0, 10.5, 11.0)]
    served = Served(10.0, [11.5], [[Trace(0, 3, 2, spans)]])
    events = [list(served.events(rank, len(Stage))) for rank in range(2)]
    timeline.write(tmp_path / "trace.json", {ROUTED: events, RING: events})
    written = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    titles = [event for event in written if event["ph"] == "M"]
    assert [t["args"]["name"] for t in titles if t["name"] == "process_name"] == [
        *("routed rank 0", "routed rank 1", "ring rank 0", "ring rank 1")
    ]
    threads = [t["args"]["name"] for t in titles if t["name"] == "thread_name" and not t["pid"]]
    assert threads == ["gather", "ffn", "reduce", "collect", "model"]
    mine = [event for event in written if event["ph"] == "X" and event["pid"] == 0]
    assert [(e["name"], e["tid"], e["ts"], e["dur"]) for e in mine] == [
        ("prefill", 4, 0.0, 1.5e6),
        ("layer 2 band 0", 0, 0.0, 0.5e6),
        ("layer 2 band 0", 1, 0.5e6, 0.5e6),
    ]
