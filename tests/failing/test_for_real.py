# SPDX-License-Identifier: Apache-2.0
"""Memory that runs out, the limit of recursion, and a small stack, for real."""

import pytest

from support import child


def lack_of_memory():
    """Compilations in the middle of which the system refuses memory, each with less that is left, and one after that."""
    import errno
    import resource
    from pathlib import Path

    import torch

    from support.in_child import instrument

    instrument()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    blocks = []

    def taking_all_but(left, size):
        """A backend that leaves so many bytes, and takes them in pieces of this size until there is no further one."""

        def backend(graph, _inputs):
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + left, hard))
            try:
                while True:
                    blocks.append(bytearray(size))
            except MemoryError:
                blocks.pop()
            return graph.forward

        return backend

    outcomes = []
    for left, size in ((2**24, 2**16), (2**22, 2**12), (2**20, 2**10), (2**18, 256)):
        torch._dynamo.reset()
        try:
            compiled = torch.compile(lambda x: x + 1, backend=taking_all_but(left, size))
            outcomes.append(compiled(torch.ones(2)).tolist())
        except OSError as error:
            outcomes.append(errno.errorcode[error.errno])
        except Exception as error:
            outcomes.append(type(error).__name__)
        finally:
            blocks.clear()
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    torch._dynamo.reset()
    later = torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).tolist()
    return {"outcomes": outcomes, "later": later}


@pytest.mark.fault("hooks and callbacks", "memory runs out in a compilation (RLIMIT_AS)")
def test_a_compilation_that_runs_out_of_memory_leaves_the_next_one_traced(tmp_path):
    # Coverage's tracer crashes or hangs where it gets no memory.
    done = child.run(lack_of_memory, folder=tmp_path, measured=False)
    assert done.value["later"] == [2.0, 2.0]
    refusals = ("MemoryError", "ENOMEM", "InternalTorchDynamoError")  # Dynamo raises its own error instead of some
    assert all(outcome == [2.0, 2.0] or outcome in refusals for outcome in done.value["outcomes"])
    frames = [span for span in done.spans if span.name == "torch.compile_frame"]
    assert frames[-1].status == "UNSET"
    assert frames[-1].parent is None


def near_the_limit():
    """Observed calls and an event at each depth near the limit of recursion."""
    import sys

    from support.in_child import instrument
    from torchspan.observers import observable

    @observable
    def observed(number):
        return number + 1

    def deeper(left):
        return deeper(left - 1) if left else observed(1)

    def outcome(left):
        try:
            return deeper(left)
        except RecursionError:
            return "RecursionError"

    limit = sys.getrecursionlimit()
    plain = {left: outcome(left) for left in range(limit - 100, limit)}
    instrument()
    traced = {left: outcome(left) for left in plain}
    for _ in range(3):
        observed(1)
    return {"plain": list(plain.values()), "traced": list(traced.values()), "later": observed(1)}


@pytest.mark.fault(
    "hooks and callbacks",
    "the limit of recursion is near",
    lost="spans of the calls",
    counted="torchspan.callback.failures",
)
def test_a_call_near_the_limit_of_recursion_returns_what_it_returns_without_torchspan(tmp_path):
    # Unmeasured: what measures coverage takes a part of the stack at each call.
    done = child.run(near_the_limit, folder=tmp_path, measured=False)
    plain, traced = done.value["plain"], done.value["traced"]
    own = sum(before != after for before, after in zip(plain, traced, strict=True))
    assert own <= 5  # the frames of the wrapper and of the guard, in which nothing of torchspan's could catch it
    assert set(traced) == {2, "RecursionError"}
    assert done.value["later"] == 2
    assert [span.name.rpartition(".")[2] for span in done.spans[-4:]] == ["observed"] * 4


def on_a_small_stack():
    """A compilation and observed calls in a thread with the smallest stack."""
    import threading

    from support.in_child import instrument
    from torchspan.observers import observable

    instrument()

    @observable
    def observed(number):
        return number + 1

    results = []
    threading.stack_size(64 * 1024)
    thread = threading.Thread(target=lambda: results.append(observed(1)))
    thread.start()
    thread.join()
    return results


@pytest.mark.fault("threads", "one has a stack of 64 kB")
def test_a_thread_with_a_stack_of_64_kb_is_recorded(tmp_path):
    done = child.run(on_a_small_stack, folder=tmp_path)
    assert done.value == [2]
    assert [span.name.rpartition(".")[2] for span in done.spans] == ["observed"]
