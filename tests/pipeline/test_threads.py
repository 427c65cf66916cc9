# SPDX-License-Identifier: Apache-2.0
"""Two compilations in two threads, by the one route that serializes itself."""

import threading

import torch

from support import models
from support.tree import outline

COMPILE_OF_ONE_ENGINE = """\
request {}
  torch.compile_frame
    torch.compile_phase backend_compile
      torch_tensorrt.compile
        torch_tensorrt.decompose
        torch_tensorrt.lower
        torch_tensorrt.partition
        torch_tensorrt.convert
          torch_tensorrt.construct_network
          tensorrt.build_engine
          tensorrt.deserialize_engine
          torch_tensorrt.setup_engine
            tensorrt.deserialize_engine
  torch_tensorrt.execute"""


def test_two_torch_compiles_under_two_requests_give_two_clean_trees(instrument, exporter, tracer):
    instrument()
    failures = []

    def request(number, model, x):
        try:
            compiled = torch.compile(model, backend="tensorrt", options={"min_block_size": 1})
            with torch.no_grad(), tracer.start_as_current_span(f"request {number}"):
                compiled(x)
        except Exception as error:  # a thread's exception would be lost
            failures.append(error)

    work = [
        (1, models.seeded(models.Mlp), torch.ones(2, 16)),
        (2, models.seeded(models.ConvNet), models.image()),
    ]
    threads = [threading.Thread(target=request, args=arguments) for arguments in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    spans = exporter.get_finished_spans()
    assert sorted(outline(spans)) == [COMPILE_OF_ONE_ENGINE.format(1), COMPILE_OF_ONE_ENGINE.format(2)]
    assert len({span.context.trace_id for span in spans}) == 2
    assert len({span.context.span_id for span in spans}) == len(spans)
