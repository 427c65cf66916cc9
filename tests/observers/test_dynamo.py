# SPDX-License-Identifier: Apache-2.0
"""What torch.compile and torch.export trace contains nothing of observers, costs no graph and calls no callback.

The functions below are decorated before torch is imported (in this file; the program at the end proves it in a process).
"""

import sys
import types

import pytest

from torchspan import observers
from torchspan.observers import ErrorPolicy, ObserveContext, Observer, observable, observe_function

pytestmark = pytest.mark.slow


@observable()
def double(x):
    return x * 2


@observable()
def pairs(x):
    yield x
    yield x + 1


class Holder:
    @observable()
    def method(self, x):
        return x + 1

    @observable()
    @staticmethod
    def static(x):
        return x + 2

    @observable()
    @classmethod
    def of_class(cls, x):
        return x + 3


HOLDER = Holder()
POINT = Observer("point")
EVERYWHERE = Observer("everywhere", scope="process")
import torch  # noqa: E402 - what is above was decorated before, where this file is the first to import it
from torch._dynamo.testing import CompileCounter  # noqa: E402

from support.dynamo import Net, breaks, clean_dynamo  # noqa: E402


def observed(x):
    return double(x)


def observed_with_keywords(x):
    return double(x=x)


def observed_generator(x):
    for each in pairs(x):
        x = x + each
    return x


def observed_methods(x):
    return HOLDER.static(HOLDER.of_class(HOLDER.method(x)))


def observed_inside(x):
    return observable()(torch.sin)(x)


def observed_with_policy_inside(x):
    return observable(policy=ErrorPolicy(rethrow=True))(torch.sin)(x)


def made_observable(x):
    return observers._make_observable(torch.sin)(x)


def firing(x):
    POINT.observe(x, key="value")
    EVERYWHERE.observe(x)
    return x + 1


def adding(x):
    with POINT.add(listen), EVERYWHERE.add(listen, scope="context", policy=ErrorPolicy(disable_after=1)):
        return x + 1


def adding_without_with(x):
    registration = POINT.add(listen)
    x = x + 1
    registration.remove()
    return x


def made_observer(x):
    observer = Observer("made", scope="process", policy=ErrorPolicy(rethrow=True))
    with observer.add(listen):
        observer.observe(x)
    return x + 1 if observer.name == "made" and not observer.is_heard else x + 100


def adding_to_a_pair(x):
    with double.observers.pre.add(listen), double.observers.post.add(listen):
        return double(x)


def adding_to_an_official_pair(x):
    with observers.tensorrt.build_engine.pre.add(listen), observers.torch_tensorrt.pass_.post.add(listen):
        return x + 1


def observing_in_a_with_statement(x):
    with observe_function("textwrap:dedent") as observation, observation.observers.pre.add(listen):
        return x + 1


def observing_by_call(x):
    observation = observe_function("textwrap:dedent")
    x = x + 1
    observation.remove()
    return x


def list_of_callbacks(x):
    callbacks = POINT._get_callbacks()
    callbacks.append(listed)
    for _ in callbacks:
        x = x + 100
    x = x + 1 + len(callbacks) if listed not in callbacks else x + 100
    callbacks.remove(listed)
    return x


def policies_and_contexts(x):
    policy = ErrorPolicy(disable_after=2)
    call = ObserveContext(double, (x,), {}, outcome="returned")
    return call.args[0] + policy.disable_after if call.exception is None else x


def question(x):
    return x + 100 if POINT.is_heard else x + 1


HEARD = []


def listen(reported, **_keywords):
    HEARD.append(reported.outcome or "called" if isinstance(reported, ObserveContext) else "fired")


def listed(*_args, **_kwargs):
    pass


# Up to 2.13 Dynamo does not read what is stored on a function that another one wraps: the graph breaks.
OF_A_FUNCTION = [adding_to_a_pair] if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14) else []
TRACED = [
    observed,
    observed_with_keywords,
    observed_generator,
    observed_methods,
    observed_inside,
    observed_with_policy_inside,
    made_observable,
    firing,
    adding,
    adding_without_with,
    made_observer,
    *OF_A_FUNCTION,
    adding_to_an_official_pair,
    observing_in_a_with_statement,
    observing_by_call,
    list_of_callbacks,
    policies_and_contexts,
    question,
]


def everything(x):
    for function in TRACED:
        x = function(x)
    return x


SITUATIONS = ["no callbacks", "callbacks", "bridge on, callbacks"]
# All of them in one function in every situation; each by itself in the fullest one, so that a failure names it.
CASES = [*((everything, situation) for situation in SITUATIONS), *((each, SITUATIONS[-1]) for each in TRACED)]


@pytest.fixture(autouse=True)
def _clean():
    HEARD.clear()
    with clean_dynamo():
        yield
    HEARD.clear()


@pytest.fixture
def listening():
    """Adds a callback to every observer there is, also to those of other threads; they are removed after the test."""
    added = []

    def listen_to_all():
        functions = [double, pairs, Holder.method, Holder.static, Holder.of_class]
        for observer in (POINT, EVERYWHERE, *(each for f in functions for each in (f.observers.pre, f.observers.post))):
            added.extend(observer.add(listen, scope=scope) for scope in ("context", "process"))

    yield listen_to_all
    for each in added:
        each.remove()


@pytest.fixture(params=SITUATIONS)
def situation(request, listening, instrument):
    if "bridge on" in request.param:
        instrument()
    if request.param != "no callbacks":
        listening()


def spans_of_calls(exporter):
    return [each.name for each in exporter.get_finished_spans() if each.name.startswith("torchspan.observed")]


name = lambda each: getattr(each, "__name__", each)
in_each_case = pytest.mark.parametrize(("function", "situation"), CASES, ids=name, indirect=["situation"])


# --- in the graph ---------------------------------------------------------------------------------------------
@in_each_case
def test_a_traced_function_is_one_graph_without_a_break_or_an_event(function, situation, exporter):
    x, count = torch.randn(3), CompileCounter()
    model = torch.compile(Net(function), backend=count, fullgraph=True)
    results = [model(x) for _ in range(3)]
    assert count.frame_count == 1
    assert breaks() == ({}, {})
    assert HEARD == []
    assert spans_of_calls(exporter) == []
    torch.testing.assert_close(results, [results[0]] * 3)


def test_who_listens_meanwhile_recompiles_nothing(listening, instrument):
    x, count = torch.randn(3), CompileCounter()
    model = torch.compile(Net(everything), backend=count, fullgraph=True)
    model(x)
    listening()
    model(x)
    instrumentor = instrument()
    model(x)
    heard_before = [*HEARD]
    double(x)  # the program itself continues between
    POINT.observe(x)
    with observe_function("textwrap:dedent"):
        model(x)
    instrumentor.uninstrument()
    model(x)
    assert count.frame_count == 1
    assert breaks() == ({}, {})
    assert heard_before == []
    assert HEARD == ["called", "called", "returned", "returned", "fired", "fired"]


@pytest.mark.parametrize(
    ("function", "situation", "strict"),
    [*((*case, False) for case in CASES), *((everything, situation, True) for situation in SITUATIONS)],
    ids=name,
    indirect=["situation"],
)
def test_an_exported_program_is_that_of_the_bare_functions_and_no_callback_receives_stand_ins(
    function, situation, strict, exporter
):
    exported = torch.export.export(Net(function), (torch.randn(3),), strict=strict)
    operators = [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]
    assert operators[0] == "aten.sin.default"
    assert operators[-1] == "aten.cos.default"
    assert set(operators[1:-1]) <= {"aten.add.Tensor", "aten.mul.Tensor", "aten.sin.default"}
    assert HEARD == []
    assert spans_of_calls(exporter) == []


@pytest.mark.parametrize(
    "function", [observed, observed_generator, observed_methods, made_observable, firing, *OF_A_FUNCTION], ids=name
)
def test_the_result_is_that_of_eager_mode(function):
    x = torch.randn(3)
    torch.testing.assert_close(torch.compile(Net(function), backend="eager", fullgraph=True)(x), Net(function)(x))


def test_another_packages_function_that_is_observed_is_one_graph_as_before(monkeypatch, note, seen):
    library = types.ModuleType("library")
    library.twice = lambda x: x * 2
    monkeypatch.setitem(sys.modules, "library", library)
    count, x = CompileCounter(), torch.randn(3)
    with observe_function("library:twice") as observation, observation.observers.pre.add(note("pre")):
        model = torch.compile(Net(lambda x: library.twice(x)), backend=count, fullgraph=True)
        for _ in range(3):
            model(x)
    assert count.frame_count == 1
    assert breaks() == ({}, {})
    assert seen == []


# --- stand-ins for tensors ------------------------------------------------------------------------------------
def test_tracing_ahead_of_time_calls_no_callback_with_gradients_either(situation, exporter):
    compiled = torch.compile(Net(observed), backend="aot_eager", fullgraph=True)
    compiled(torch.randn(3, requires_grad=True)).sum().backward()
    assert HEARD == []
    assert spans_of_calls(exporter) == []


def test_fake_tensors_are_not_a_call_and_real_ones_are(listening):
    listening()
    with torch._subclasses.FakeTensorMode():
        fake = torch.ones(3)
        double(fake)
        POINT.observe(fake)
    double(fake)
    double(x=fake)
    POINT.observe(key=fake)
    assert HEARD == []
    double(torch.ones(3))
    assert HEARD == ["called", "called", "returned", "returned"]


def test_a_fake_kernel_of_a_custom_operator_is_not_a_call(listening):
    @torch.library.custom_op("torchspan_test::observed_twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return double(x)

    @twice.register_fake
    def _(x):
        return double(x)

    listening()
    compiled = torch.compile(lambda x: twice(x) + 1, backend="aot_eager", fullgraph=True)
    compiled(torch.randn(3))
    compiled(torch.randn(3))
    assert HEARD == ["called", "called", "returned", "returned"] * 2  # the runs of the operator itself, once each


def test_what_runs_below_a_mode_for_fake_tensors_without_any_export_is_reported(instrument, exporter, seen):
    # So Torch-TensorRT runs lowering passes, those of the program's included.
    @observable()
    def lowering_pass(graph_module):
        graph_module.graph.eliminate_dead_code()
        return graph_module

    is_graph = lambda thing: isinstance(thing, torch.fx.GraphModule)
    lowering_pass.observers.post.add(lambda call: seen.append((call.outcome, is_graph(call.args[0]))))
    instrument()
    graph_module = torch.fx.symbolic_trace(Net(torch.sin))
    with torch._subclasses.FakeTensorMode(), POINT.add(lambda thing: seen.append(("fired", is_graph(thing)))):
        assert lowering_pass(graph_module) is graph_module
        POINT.observe(graph_module)
    assert seen == [("returned", True), ("fired", True)]
    assert len(spans_of_calls(exporter)) == 1
