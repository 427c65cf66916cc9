# SPDX-License-Identifier: Apache-2.0
"""What torch.compile and torch.export trace contains nothing of torchspan's, costs no graph and reaches no callback.

The functions below are decorated before torch is imported (in this file; the program at the end proves it in a process).
"""

import asyncio
import functools
import subprocess
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import pytest

from torchspan import callbacks
from torchspan.base import dynamo_safety
from torchspan.callbacks import RecordFunction, RecordFunctionCallback, RecordScope, record_function


@record_function("double")
def double(x):
    return x * 2


@record_function("pairs")
def pairs(x):
    yield x
    yield x + 1


@record_function("coroutine")
async def coroutine(x):
    return x


@record_function("async pairs")
async def async_pairs(x):
    yield x
    yield x + 1


@record_function("awaitable pairs")
@types.coroutine
def awaitable_pairs(x):
    yield x


class Holder:
    @record_function("method")
    def method(self, x):
        return x + 1

    @record_function("static")
    @staticmethod
    def static(x):
        return x + 2

    @record_function("class")
    @classmethod
    def of_class(cls, x):
        return x + 3


HOLDER = Holder()
SHARED = record_function("shared")
import torch  # noqa: E402 - what is above was decorated before, where this file is the first to import it
from torch._dynamo.testing import CompileCounter  # noqa: E402

from support.dynamo import Net, breaks, clean_dynamo  # noqa: E402


def decorated(x):
    return double(x)


def decorated_generator(x):
    for each in pairs(x):
        x = x + each
    return x


def decorated_methods(x):
    return HOLDER.static(HOLDER.of_class(HOLDER.method(x)))


def decorated_inside(x):
    return record_function("inside")(torch.sin)(x)


def decorated_inside_without_a_name(x):
    return record_function(torch.sin)(x)


def with_statement(x):
    with record_function("range", inputs=(x,)) as given:
        x = x + 1
        given.set_outputs(x)
        assert given.record is None
    return x


def with_statement_of_a_scope(x):
    with record_function("range", scope=RecordScope.FUNCTION, sequence_nr=3):
        return x + 1


def with_shared_object(x):
    with SHARED, SHARED:
        return x + 1


def explicit_range(x):
    record = RecordFunction(RecordScope.FUNCTION)
    record.before("range", (x,), sequence_nr=1)
    record.set_async()
    x = x + 1
    record.set_outputs((x,))
    record.end()
    return x if not record.is_active else x + 100


def guards(x):
    with callbacks.DisableRecordFunctionGuard(), callbacks.RecordFunctionGuard(True):
        x = x + 1
    callbacks.enable_record_function(False)
    callbacks.enable_record_function(True)
    return x if callbacks.is_record_function_enabled() else x + 100


def registration(x):
    handle = callbacks.add_global_callback(LISTENER)
    callbacks.disable_callback(handle)
    callbacks.reenable_callback(handle)
    callbacks.remove_callback(handle)
    callbacks.remove_callback(callbacks.add_thread_local_callback(LISTENER))
    callbacks.clear_callbacks()
    return x + 1


def registration_and_removal(x):
    callbacks.add_global_callback(LISTENER).remove()
    return x + 1


def questions(x):
    listening = callbacks.has_callbacks() or callbacks.has_global_callbacks() or callbacks.has_thread_local_callbacks()
    return x + 100 if listening else x + 1


def state(x):
    callbacks.set_record_function_tls(callbacks.get_record_function_tls())
    x = callbacks.ThreadLocalState().run(torch.sin, x)
    callbacks.set_record_function_seed_for_testing(1)
    callbacks.set_default_node_id(5)
    return x + callbacks.get_default_node_id() + 2


def thread_id(x):
    return x + 1 if callbacks.current_thread_id() else x


HEARD = []
LISTENER = RecordFunctionCallback(
    lambda record: HEARD.append(f"start {record.name}"), lambda record, _context: HEARD.append(f"end {record.name}")
)
# Up to 2.13 Dynamo enters no context manager that was made outside of what it traces: the graph breaks, also for a bare one.
SHARING = [with_shared_object] if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14) else []
TRACED = [
    decorated,
    decorated_generator,
    decorated_methods,
    decorated_inside,
    decorated_inside_without_a_name,
    with_statement,
    with_statement_of_a_scope,
    *SHARING,
    explicit_range,
    guards,
    registration,
    registration_and_removal,
    questions,
    state,
    thread_id,
]


def everything(x):
    for function in TRACED:
        x = function(x)
    return x


TRUTHFUL = (registration, questions)
"""Non-strict export has Python run these: registration then takes effect, and the answers are the truth."""


def everything_but_the_truthful(x):
    for function in TRACED:
        if function not in TRUTHFUL:
            x = function(x)
    return x


# All of them in one function in every situation and mode; each by itself in one, so that a failure names it.
LISTENING = {"no callbacks": False, "callbacks": True}


@pytest.fixture(autouse=True)
def _clean():
    HEARD.clear()
    with clean_dynamo():
        yield


@pytest.fixture
def listening(request):
    if LISTENING[request.param]:
        callbacks.add_global_callback(LISTENER)


@pytest.mark.parametrize(
    ("function", "listening"),
    [*((everything, each) for each in LISTENING), *((each, "callbacks") for each in TRACED)],
    ids=lambda each: getattr(each, "__name__", each),
    indirect=["listening"],
)
def test_a_traced_function_is_one_graph_without_a_break_or_an_event(function, listening):
    x = torch.randn(3)
    bare = CompileCounter()
    model = torch.compile(Net(function), backend=bare, fullgraph=True)
    results = [model(x) for _ in range(3)]
    assert bare.frame_count == 1
    assert breaks() == ({}, {})
    assert HEARD == []
    callbacks.clear_callbacks()
    torch.testing.assert_close(results, [results[0]] * 3)


def test_registering_and_removing_callbacks_recompiles_nothing():
    x, count = torch.randn(3), CompileCounter()
    model = torch.compile(Net(everything), backend=count, fullgraph=True)
    model(x)
    handle = callbacks.add_global_callback(LISTENER)
    model(x)
    callbacks.add_thread_local_callback(LISTENER)
    model(x)
    double(x)  # the program itself continues between
    with SHARED:
        pass
    model(x)
    callbacks.remove_callback(handle)
    with callbacks.DisableRecordFunctionGuard():
        model(x)
    assert count.frame_count == 1
    assert breaks() == ({}, {})
    assert set(HEARD) == {"start double", "end double", "start shared", "end shared"}


@pytest.mark.parametrize(
    ("function", "strict"),
    [(everything, True), (everything_but_the_truthful, False), *((each, False) for each in TRACED)],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_an_exported_program_is_that_of_the_bare_functions_and_no_callback_receives_stand_ins(function, strict):
    if function not in TRUTHFUL:
        callbacks.add_global_callback(LISTENER)
    x = torch.randn(3)
    exported = torch.export.export(Net(function), (x,), strict=strict)
    operators = [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]
    assert operators[0] == "aten.sin.default"
    assert operators[-1] == "aten.cos.default"
    assert set(operators[1:-1]) <= {"aten.add.Tensor", "aten.mul.Tensor", "aten.sin.default"}
    assert HEARD == []


def test_the_result_is_that_of_eager_mode():
    x = torch.randn(3)
    for function in (decorated, decorated_generator, decorated_methods, with_statement, *SHARING):
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(Net(function), backend="eager", fullgraph=True)(x), Net(function)(x))


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_compiled_decorated_function_is_an_event_around_one_graph(fullgraph):
    """Python runs the wrapper, then the graph: the range is real."""
    callbacks.add_global_callback(LISTENER)
    count, x = CompileCounter(), torch.randn(3)
    compiled = torch.compile(double, backend=count, fullgraph=fullgraph)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), x * 2)
    assert count.frame_count == 1
    assert breaks() == ({}, {})
    assert HEARD == ["start double", "end double"] * 2


def test_decorating_what_was_compiled_is_possible():
    callbacks.add_global_callback(LISTENER)
    count, x = CompileCounter(), torch.randn(3)
    compiled = record_function("outside")(torch.compile(lambda x: x * 2, backend=count))
    compiled(x)
    torch.compile(compiled, backend=count)(x)
    assert HEARD == ["start outside", "end outside"] * 2


def test_between_two_graphs_ranges_are_real_and_neither_they_nor_callbacks_are_compiled():
    frames = []

    def start(record):
        frames.append(record.name)
        return torch.ones(1) + 1  # what Dynamo would compile, were it looking

    def broken(x):
        for _ in range(2):  # a break in a loop: the frame runs in Python, what it calls is looked at
            torch._dynamo.graph_break()
            x = double(x)
        return x

    callbacks.add_global_callback(RecordFunctionCallback(start))
    count = CompileCounter()
    compiled = torch.compile(broken, backend=count)
    compiled(torch.randn(3))
    compiled(torch.randn(3))
    assert frames == ["double"] * 4
    assert count.frame_count == 1  # the bare `double`, and nothing of the callback


def test_what_carries_callbacks_into_threads_and_pools_is_not_compiled_either():
    callbacks.add_thread_local_callback(RecordFunctionCallback(lambda _record: None))
    carrying = [threading.Thread.start, ThreadPoolExecutor.submit]
    left_alone = set(dynamo_safety._own_codes())
    assert [each.__code__ in left_alone for each in carrying] == [True] * 2


def test_a_break_inside_a_decorated_function_costs_no_more_graphs_than_inside_the_bare_one():
    def broken(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    counts = []
    for function in (broken, record_function("broken")(broken)):
        torch._dynamo.reset()
        count = CompileCounter()
        model = torch.compile(Net(function), backend=count)
        for _ in range(3):
            model(torch.randn(3))
        counts.append(count.frame_count)
    assert counts[0] == counts[1] > 1


def test_a_decorated_coroutine_may_run_compiled_code():
    count = CompileCounter()
    compiled = torch.compile(decorated, backend=count, fullgraph=True)

    @record_function("serve")
    async def serve(x):
        return compiled(x)

    callbacks.add_global_callback(LISTENER)
    asyncio.run(serve(torch.randn(3)))
    assert count.frame_count == 1
    assert HEARD == ["start serve", "end serve"]


@pytest.mark.parametrize("function", [double, pairs, coroutine, async_pairs, awaitable_pairs])
def test_dynamo_receives_the_code_of_every_wrapper(function):
    closure = [cell.cell_contents for cell in function.__closure__]
    wrappers = [each for each in (function, *closure) if getattr(each, "__wrapped__", None) is function.__wrapped__]
    known = {id(code) for code in dynamo_safety._own_codes()}  # it goes by the object, not by what is in it
    assert {id(each.__code__) for each in wrappers} <= known


def test_fake_tensors_are_not_an_event_and_real_ones_are():
    callbacks.add_global_callback(LISTENER)
    with torch._subclasses.FakeTensorMode():
        fake = torch.ones(3)
        double(fake)
    double(fake)
    double(x=fake)
    assert HEARD == []
    double(torch.ones(3))
    assert HEARD == ["start double", "end double"]


def test_tracing_ahead_of_time_is_not_an_event_with_gradients_either():
    callbacks.add_global_callback(LISTENER)
    x = torch.randn(3, requires_grad=True)
    compiled = torch.compile(Net(decorated), backend="aot_eager", fullgraph=True)
    compiled(x).sum().backward()
    assert HEARD == []


def test_a_fake_kernel_of_a_custom_operator_is_not_an_event():
    @torch.library.custom_op("torchspan_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return double(x)

    @twice.register_fake
    def _(x):
        return double(x)

    callbacks.add_global_callback(LISTENER)
    compiled = torch.compile(lambda x: twice(x) + 1, backend="aot_eager", fullgraph=True)
    compiled(torch.randn(3))
    compiled(torch.randn(3))
    assert HEARD == ["start double", "end double"] * 2  # the runs of the operator itself, once each


def test_a_decorated_operator_tells_its_name():
    names = []
    callbacks.add_global_callback(RecordFunctionCallback(lambda record: names.append(record.operator_name)))
    record_function("add")(torch.ops.aten.add.Tensor)(torch.ones(1), torch.ones(1))
    assert names == ["aten::add.Tensor"]


PROGRAM = """
import sys
from torchspan.callbacks import RecordFunctionCallback, add_global_callback, record_function
heard = []
add_global_callback(RecordFunctionCallback(lambda record: heard.append(record.name)))
@record_function("double")
def double(x):
    return x * 2
double(1)
assert heard == ["double"] and "torch" not in sys.modules
import torch
assert "torch._dynamo" not in sys.modules, "we imported Dynamo"
from torch._dynamo.testing import CompileCounter
def traced(x):
    with record_function("range"):
        return double(x.sin())
count = CompileCounter()
torch.compile(traced, backend=count, fullgraph=True)(torch.ones(2))
for strict in (True, False):
    class Net(torch.nn.Module):
        def forward(self, x):
            return traced(x)
    torch.export.export(Net(), (torch.ones(2),), strict=strict)
assert not torch._dynamo.utils.counters["graph_break"]
print(count.frame_count, heard)
"""


def test_what_was_decorated_before_torch_was_imported_is_safe_too():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 ['double']\n"


@pytest.mark.parametrize("fullgraph", [False, True])
def test_what_a_program_wraps_around_a_decorated_function_is_in_the_graph(fullgraph):
    """`functools.wraps` copies attributes; by one of torchspan's Dynamo would read the bare function in the wrapper's place."""

    @functools.wraps(double)
    def outer(x):
        return double(x) + 1

    count, x = CompileCounter(), torch.randn(3)
    compiled = torch.compile(outer, backend=count, fullgraph=fullgraph)
    torch.testing.assert_close(compiled(x), x * 2 + 1)
    torch.testing.assert_close(torch.compile(Net(outer), backend="eager")(x), (x.sin() * 2 + 1).cos())
    assert count.frame_count == 1
    assert breaks() == ({}, {})
