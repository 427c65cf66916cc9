# SPDX-License-Identifier: Apache-2.0
"""The trace of a frame in PyTorch's own records of its compilation."""

import json
import logging

import pytest
import torch

from support import compiled

ONES = torch.ones(3, 3)


def recorded():
    """The texts of users in the record of the last frame."""
    return torch._dynamo.utils.get_compilation_metrics()[-1].recompile_user_contexts


@pytest.fixture
def plain(dynamo):
    return torch.compile(compiled.plain, backend="eager")


def traceparent(span):
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


def test_the_record_of_a_frame_names_its_span(plain, tracer, spans):
    with tracer.start_as_current_span("request"):
        plain(ONES)
    (made,) = spans("torch.compile_frame")
    assert recorded() == {traceparent(made)}


def test_what_torch_trace_writes_names_the_trace_and_the_compile_id(plain, spans):
    lines = []

    class Lines(logging.Handler):
        def emit(self, record):
            if "compilation_metrics" in record.metadata:
                lines.append(json.loads(json.dumps(record.metadata["compilation_metrics"], default=list)))

    log, handler = logging.getLogger("torch.__trace"), Lines()
    log.addHandler(handler)
    try:
        plain(ONES)
    finally:
        log.removeHandler(handler)
    (made,) = spans("torch.compile_frame")
    assert [(line["compile_id"], line["recompile_user_contexts"]) for line in lines] == [
        (made.attributes["torch.compile.id"], [traceparent(made)])
    ]


def test_a_hook_of_the_program_is_asked_as_well(plain, dynamo, spans):
    dynamo.register_hook_for_recompile_user_context(lambda: "epoch 3")
    try:
        plain(ONES)
    finally:
        torch._dynamo.utils._recompile_user_contexts.pop()
    assert recorded() == {"epoch 3", traceparent(*spans("torch.compile_frame"))}


def test_after_uninstrumenting_torchspans_hook_is_gone_and_the_programs_is_not(plain, instrument, dynamo):
    dynamo.register_hook_for_recompile_user_context(lambda: "epoch 3")
    try:
        instrument().uninstrument()
        plain(ONES)
    finally:
        torch._dynamo.utils._recompile_user_contexts.pop()
    assert recorded() == {"epoch 3"}


def test_a_frame_inside_a_backend_compiles_though_pytorch_sets_the_field_twice_with_a_hook(plain, spans):
    def backend(module, _inputs):
        plain(ONES)
        return module.forward

    assert torch.compile(compiled.adds, backend=backend)(ONES, 1).equal(ONES + 1)
    outer, _inner = spans("torch.compile_frame")
    assert recorded() == {traceparent(outer)}


def test_nothing_is_registered_with_pytorch(plain):
    plain(ONES)
    assert not torch._dynamo.utils._recompile_user_contexts
