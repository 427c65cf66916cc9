# SPDX-License-Identifier: Apache-2.0
"""What programs do next to other tools: compile by Torch-TensorRT and torch.compile, in threads and coroutines, log, and fail."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import torch
import torch_tensorrt

OPTIONS = {"min_block_size": 1, "immutable_weights": False, "truncate_double": True}


def engine():
    """An engine, and its result."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
    ones = torch.ones(2, 4)
    return round(torch_tensorrt.compile(model, ir="dynamo", inputs=[ones], **OPTIONS)(ones).sum().item(), 4)


def twice():
    """A function that is compiled for two sizes and has a graph break."""

    def squared(values):
        values = values * 2
        torch._dynamo.graph_break()
        return values * values

    compiled = torch.compile(squared, backend="eager", dynamic=False)
    return [compiled(torch.ones(size)).sum().item() for size in (2, 3)]


def in_a_thread():
    """A compilation on a thread of a pool."""
    compiled = torch.compile(lambda values: values + 1, backend="eager")
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(compiled, torch.ones(3)).result().sum().item()


def in_a_coroutine():
    """A compilation in a coroutine, while another one runs."""
    compiled = torch.compile(lambda values: values - 1, backend="eager")

    async def call():
        await asyncio.sleep(0)
        return compiled(torch.ones(3)).sum().item()

    async def both():
        return await asyncio.gather(call(), call())

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(both())
    # In a notebook a loop runs already on this thread.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, both()).result()


def refused():
    """A compilation that its backend refuses."""

    def refuse(_graph, _inputs):
        raise RuntimeError("this backend refuses")

    return torch.compile(lambda values: values / 2, backend=refuse)(torch.ones(3))


def without_operators():
    """A function in which there is nothing to compile."""
    return torch.compile(lambda number: number, backend="eager")(1)


def left_to_python():
    """A graph break in a loop, for which the whole function runs eagerly."""

    def doubled(values):
        for _ in range(2):
            values = values * 2
            torch._dynamo.graph_break()
        return values

    return torch.compile(doubled, backend="eager")(torch.ones(3)).sum().item()


def over_the_limit():
    """A function that is compiled too often."""
    scaled = torch.compile(lambda values, factor: values * factor, backend="eager", dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=2):
        return [scaled(torch.ones(3), factor).sum().item() for factor in (2, 3, 4)]


def logged():
    """A record of the program's log."""
    logging.getLogger("work").warning("everything is compiled")
    return "logged"


STEPS = (
    engine,
    twice,
    in_a_thread,
    in_a_coroutine,
    refused,
    without_operators,
    left_to_python,
    over_the_limit,
    logged,
)


def work(steps=STEPS):
    """The outcome of each step: its result, or the type and the first line of its exception."""
    outcomes = {}
    for step in steps:
        try:
            outcomes[step.__name__] = step()
        except Exception as error:
            outcomes[step.__name__] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return outcomes
