# SPDX-License-Identifier: Apache-2.0
"""What is recorded equals what `torch.profiler` records, event by event, for the same model and inputs, each alone."""

import struct
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")

from torch.profiler import ProfilerActivity, profile  # noqa: E402

EVENT = struct.Struct("<QQQQQQQHBBI")
RAISED, ELSEWHERE, LINKED, SCOPE = 0x01, 0x02, 0x04, 0x30
BACKWARD = 0x10
BY_A_PROFILER_ALONE = (
    "## Call CompiledFxGraph",  # `_RecordFunctionFast` asks whether a profiler runs, not whether callbacks are registered
    "Pregraph bytecode",
    "AOTDispatcher Runtime Wrapper Prologue",
)
"""How the names of events begin that only a running profiler makes visible."""


class Node:
    """An operator, with those inside it on its thread in the order of their starts."""

    def __init__(self, name, overload, shapes, is_elsewhere):
        self.name, self.overload, self.shapes, self.is_elsewhere = name, overload, shapes, is_elsewhere
        self.children = []
        self.link = None  # the forward operator

    def as_data(self):
        link = None if self.link is None else (self.link.name, self.link.overload, self.link.number)
        return (self.name, self.overload, self.shapes, link, [child.as_data() for child in self.children])


def numbered(nodes):
    """Number the nodes in the order of a walk, for links."""
    count = 0
    waiting = list(reversed(nodes))
    while waiting:
        node = waiting.pop()
        node.number, count = count, count + 1
        waiting += reversed(node.children)


def forest(rows):
    """(start, end, thread, node) -> the trees of the first thread, in order; those of other threads, sorted."""
    by_thread = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row[0], -row[1])):
        by_thread[row[2]].append(row)
    own, others = [], []
    for rows_of_thread in by_thread.values():
        open_rows, roots = [], []
        for row in rows_of_thread:
            while open_rows and open_rows[-1][1] < row[1]:
                open_rows.pop()
            (open_rows[-1][3].children if open_rows else roots).append(row[3])
            open_rows.append(row)
        (others if rows_of_thread[0][3].is_elsewhere else own).extend(roots)
    numbered(own)
    numbered(others)
    return [node.as_data() for node in own], sorted((node.as_data() for node in others), key=repr)


def shape_list(shapes):
    """The shapes of tensors that have dimensions: the profiler has the same empty list for all other arguments."""
    return [list(shape) for shape in shapes if shape]


def recorded(library, run):
    """The forest that the library records, and whether all events arrived."""
    number = library.begin(255, 0, True, 100_000)
    try:
        result = run()
    finally:
        library.end(number)
    events, links, shapes, table, count, folded, _ = library.finish(number, b"t" * 16, 1)
    names = [(name.decode("utf-8", "replace"), overload.decode()) for name, overload in library.names(0)]
    rows, by_id = [], {}
    fields = list(EVENT.iter_unpack(events))
    assert len(fields) == count == sum(row[1] for row in table) or len(table) == 40
    assert folded == 0
    for (start, end, span_id, _, _, thread, _, name, flags, _, _), tensors in zip(fields, shapes, strict=True):
        node = Node(*names[name], shape_list(sizes for _, sizes in tensors), bool(flags & ELSEWHERE))
        by_id[span_id] = node
        rows.append((start, end, thread, node))
    for _, _, span_id, parent, link, _, _, _, flags, depth, _ in fields:
        by_id[span_id].parent, by_id[span_id].depth = by_id.get(parent), depth
        if flags & LINKED:
            assert links == b"t" * 16
            by_id[span_id].link = by_id[link]
    trees = forest(rows)
    for _, _, _, node in rows:  # what the library says of nesting is what the times say
        assert all(child.parent is node and child.depth == node.depth + 1 for child in node.children)
    return trees, result


def profiled(run):
    """The forest that `torch.profiler` records."""
    config = torch._C._profiler._ExperimentalConfig(capture_overload_names=True)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, experimental_config=config) as profiler:
        result = run()
    events = [
        event
        for event in profiler.profiler.kineto_results.events()
        if not event.name().startswith(BY_A_PROFILER_ALONE) and event.start_thread_id() > 0
    ]
    own = min(event.start_thread_id() for event in events if event.start_ns() == min(e.start_ns() for e in events))
    rows, last = [], {}
    for event in sorted(events, key=lambda event: (event.start_ns(), -event.end_ns())):
        thread = event.start_thread_id()
        node = Node(event.name(), event.overload_name(), shape_list(event.shapes()), thread != own)
        rows.append((event.start_ns(), event.end_ns(), thread, node))
        if event.scope() == 0 and event.sequence_nr() >= 0 and not event.name().startswith("autograd::engine::"):
            last[thread, event.sequence_nr()] = node
        if event.scope() == 1 and event.sequence_nr() >= 0:
            node.link = last.get((event.fwd_thread_id(), event.sequence_nr()))
    return forest(rows), result


# --- models -----------------------------------------------------------------------------------------------------------
def mlp():
    model, x = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)), torch.randn(4, 16)
    return lambda: model(x)


def conv_net():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2)
    )
    x = torch.randn(2, 3, 16, 16)
    return lambda: model.eval()(x).sum().backward()


def transformer():
    model, x = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0), torch.randn(2, 5, 16)
    return lambda: model(x).sum().backward()


def reentrant_backward():
    class Again(torch.autograd.Function):
        @staticmethod
        def forward(context, x, depth):
            context.depth = depth
            return x * 1

        @staticmethod
        def backward(context, gradient):
            if context.depth:
                with torch.enable_grad():
                    x = torch.ones(2, requires_grad=True)
                    Again.apply(x, context.depth - 1).sum().backward()
            return gradient, None

    x = torch.ones(2, requires_grad=True)
    return lambda: Again.apply(x, 70).sum().backward()


def torchscript_with_fork():
    @torch.jit.script
    def forked(x):
        return torch.relu(x) + 1

    @torch.jit.script
    def waiting(x):
        future = torch.jit.fork(forked, x)
        return torch.jit.wait(future)

    x = torch.randn(4)
    for _ in range(4):  # the interpreter specializes
        waiting(x)

    def run():
        waiting(x)
        time.sleep(0.5)  # the forked function's range may end after the result is there

    return run


def custom_operator_that_raises():
    @torch.library.custom_op("torchspan_tests::refuses", mutates_args=())
    def refuses(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            raise ValueError("refused")
        return x.clone()

    x = torch.ones(3)

    def run():
        with pytest.raises(ValueError, match="refused"):
            torch.ops.torchspan_tests.refuses(x)

    return run


def inductor():
    model, x = torch.compile(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())), torch.randn(4, 16)
    model(x)
    return lambda: model(x)


def exported_program():
    x = torch.randn(4, 16)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    program = torch.export.export(model, (x,)).module()
    return lambda: program(x)


MODELS = (
    mlp,
    conv_net,
    transformer,
    reentrant_backward,
    torchscript_with_fork,
    custom_operator_that_raises,
    inductor,
    exported_program,
)


@pytest.mark.filterwarnings("ignore:`torch.jit")  # a part of PyTorch that is still used
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_operators_nesting_threads_shapes_and_links_are_those_of_the_profiler(native_library, make):
    run = make()
    run()  # what is done once, such as choosing an algorithm
    (own, others), _ = recorded(native_library, run)
    (expected_own, expected_others), _ = profiled(run)
    assert own == expected_own
    assert others == expected_others


@pytest.mark.fault("libraries", "PyTorch's profiler at the same time")
def test_a_profiler_and_a_root_at_once_both_record_everything(native_library):
    run = mlp()
    run()
    (alone, _), _ = recorded(native_library, run)
    (profiled_too, _), ((recorded_too, _), _) = profiled(lambda: recorded(native_library, run))
    assert recorded_too == alone
    assert profiled_too == alone


def test_threads_without_a_root_record_nothing(native_library):
    x = torch.randn(4)
    with ThreadPoolExecutor(1) as pool:
        (own, others), _ = recorded(native_library, lambda: pool.submit(torch.add, x, x).result())
    assert (own, others) == ([], [])
