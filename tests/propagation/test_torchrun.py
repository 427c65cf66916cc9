# SPDX-License-Identifier: Apache-2.0
"""Ranks that `torchrun` starts, two on the processor with gloo."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.work import span_id, trace_id

pytestmark = pytest.mark.slow

RANK = Path(__file__).parent / "rank.py"
LAUNCHER = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(RANK)]


@pytest.mark.parametrize("launcher", ["instrumented", "not instrumented"])
def test_each_ranks_roots_are_children_of_the_launchers_parent(
    launcher, instrument, tracer, instrumented, arrived, parents
):
    pytest.importorskip("torch", reason="torch is not installed")
    command = ["opentelemetry-instrument", *LAUNCHER]
    environment = {
        **instrumented,
        "OTEL_PYTHON_ID_GENERATOR": "torchspan",
        "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "torchspan",
    }
    if launcher == "not instrumented":
        # Each rank is instrumented; the launcher only hands its environment on.
        command = [*LAUNCHER[:-1], "--no-python", "opentelemetry-instrument", sys.executable, LAUNCHER[-1]]
    instrument()
    with tracer.start_as_current_span("launch") as launch:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr

    spans = arrived()
    for rank in range(2):
        root = spans.users[f"rank {rank}"]
        assert (root.trace_id, root.parent_id) == (trace_id(launch), span_id(launch))
        assert parents(f"work of {rank} of 2, process {rank}") == (root.span_id, root.span_id)
        assert parents(f"end of {rank}") == (span_id(launch),) * 2
        assert root.resource["torch.distributed.rank"] == root.resource["torch.distributed.local_rank"] == rank
        assert root.resource["torch.distributed.world_size"] == 2
    ids = [span.span_id for span in (*spans.users.values(), *spans.torchspans.values())]
    assert len(set(ids)) == len(ids)
    assert len({span.resource["service.instance.id"] for span in spans.torchspans.values()}) == 2
