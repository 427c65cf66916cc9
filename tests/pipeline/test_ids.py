# SPDX-License-Identifier: Apache-2.0
"""Ids of a program's own spans around and inside compilations by Dynamo, which restores Python's global generator."""

import torch
from opentelemetry.sdk.trace import TracerProvider

from torchspan.sdk import TorchspanIdGenerator

COMPILES = 100


def ids_of(provider, compiles):
    """The ids of one span inside each compilation and one after it."""
    tracer, found = provider.get_tracer("app"), []

    def span():
        context = tracer.start_span("work").get_span_context()
        found.append((context.trace_id, context.span_id))

    def backend(graph, _inputs):
        span()
        return graph.forward

    x = torch.ones(2)
    for _ in range(compiles):
        torch._dynamo.reset()
        torch.compile(lambda y: y + 1, backend=backend)(x)
        span()
    return found


def test_a_hundred_compilations_repeat_no_id():
    found = ids_of(TracerProvider(id_generator=TorchspanIdGenerator(), shutdown_on_exit=False), COMPILES)
    assert len({number for ids in found for number in ids}) == 4 * COMPILES


def test_the_generator_of_the_sdk_repeats_them():
    inside, after = ids_of(TracerProvider(shutdown_on_exit=False), 1)
    assert inside == after
