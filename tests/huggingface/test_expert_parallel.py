# SPDX-License-Identifier: Apache-2.0
"""`from_pretrained(..., distributed_config=DistributedConfig(ep_implementation="inc", ...))`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import Llama4TextConfig
from transformers.models.llama4.modeling_llama4 import Llama4TextExperts

from host_agent.access import AccessError
from host_agent.bands import Placement, RowType
from host_agent.collectives import Geometry, Layout
from host_agent.huggingface import FamilyError, leave, register
from host_agent.huggingface.expert_parallel import InNetworkEP
from host_agent.huggingface.experts import Shape
from host_agent.huggingface.job import Place, job_of
from host_agent.moe import LayerError
from incmoe.loopback import Loopback
from tests.huggingface import tiny
from tests.ports import free_tcp_port

FAMILIES = ("olmoe", "gpt_oss")
TOLERANCE = 2e-5
SMALL = {"hidden_size": 64, "intermediate_size": 32, "num_local_experts": 4}


def run_ranks(folder: Path, num_ranks: int, environment: dict[str, str], *kinds: str) -> None:
    """Run worker.py as `num_ranks` processes; raises what the first that failed said."""
    environment = (
        os.environ
        | environment
        | {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_tcp_port()),
            "WORLD_SIZE": str(num_ranks),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }
    )
    command = [sys.executable, "-m", "tests.huggingface.worker", str(folder), *kinds]
    ranks = [
        subprocess.Popen(
            command,
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(num_ranks)
    ]
    said = [rank.communicate()[1] for rank in ranks]
    for rank, text in zip(ranks, said, strict=True):
        assert rank.returncode == 0, text[-3000:]


@pytest.mark.parametrize(("num_ranks", "sizes"), [(2, ["2x1", "1x2"]), (4, ["4x1", "1x4", "2x2"])])
def test_a_model_loaded_by_all_ranks_answers_as_the_whole_one(num_ranks, sizes, tmp_path):
    models = {family: tiny.model_of(family) for family in FAMILIES}
    for family, model in models.items():
        model.save_pretrained(tmp_path / family)
    layout = Layout(Placement.even(tiny.EXPERTS, num_ranks), Geometry(tiny.HIDDEN))
    with Loopback(layout).served() as environment:
        run_ranks(tmp_path, num_ranks, environment, *sizes)
    for family, model in models.items():
        for size in sizes:
            for rank in range(num_ranks):
                batch = rank // int(size[0])  # ranks of one tensor-parallel group share it
                want, tokens = tiny.answers_of(model, tiny.prompts(batch))
                got, got_tokens = torch.load(tmp_path / f"{family}.{size}.{rank}")
                assert (got - want).abs().max() < TOLERANCE
                assert torch.equal(got_tokens, tokens)


def test_experts_of_another_kind_are_refused_by_name():
    llama4 = Llama4TextExperts(Llama4TextConfig(**SMALL))
    with pytest.raises(FamilyError, match="Llama4TextExperts: no experts that look up"):
        InNetworkEP(llama4, None, None)


def test_a_job_has_all_processes():
    distributed.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
    try:
        experts = tiny.model_of("olmoe").model.layers[0].mlp.experts
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("efsdp", "ep"))
        with pytest.raises(LayerError, match="ep_size 2 among 4 processes, all of them must be"):
            InNetworkEP(experts, mesh["ep"], mesh["ep"])
    finally:
        distributed.destroy_process_group()


def test_what_transformers_is_too_old_for_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers.distributed.expert_parallel", None)
    with pytest.raises(LayerError, match=r"no EPImplementationInterface, 5\.23 has: use .*install"):
        register()


class TestJob:
    """What this process has in a job."""

    @pytest.fixture(autouse=True)
    def forgotten(self, monkeypatch):
        monkeypatch.setenv("INCMOE_CONTROLLER", "nowhere:1")
        yield
        leave()

    def test_layers_of_one_kind_share_it(self):
        place = Place(1, 4, Shape(8, 64, RowType.FLOAT32))
        job = job_of(place)
        assert job_of(place) is job
        assert [next(job.numbers), next(job.numbers)] == [0, 1]

    def test_layers_of_another_kind_need_another(self, monkeypatch):
        job_of(Place(1, 4, Shape(8, 64, RowType.FLOAT32)))
        other = Place(1, 4, Shape(8, 32, RowType.FLOAT32))
        with pytest.raises(LayerError, match=r"job incmoe: .*hidden=64.* needs .*hidden=32"):
            job_of(other)
        monkeypatch.setenv("INCMOE_JOB", "second")
        assert job_of(other).access.job == "second"

    def test_the_environment_must_name_a_controller(self, monkeypatch):
        monkeypatch.delenv("INCMOE_CONTROLLER")
        with pytest.raises(AccessError, match="INCMOE_CONTROLLER is not set"):
            job_of(Place(0, 2, Shape(8, 64, RowType.FLOAT32)))
