# SPDX-License-Identifier: Apache-2.0
"""Never changing what torch.compile does: the same function with each backend, with the bridge and without it."""

import contextlib
import random

import pytest
import torch
import torch_tensorrt
from torch._dynamo import callback, convert_frame

from support import compiled, models
from support.garbage import not_collected
from support.tree import named, outline
from torchspan.hooks.adapters.dynamo.frames import Frames

pytestmark = pytest.mark.slow

SQUARE, WIDER = torch.ones(3, 3), torch.ones(4, 3)
BACKENDS = {
    "eager": {"backend": "eager"},
    "aot_eager": {"backend": "aot_eager"},
    "inductor": {"backend": "inductor"},
    "tensorrt": {"backend": "tensorrt", "options": {"min_block_size": 1}},
}


def breaks_and_multiplies(x):
    x = x.T @ x  # Inductor calls a kernel of PyTorch's for it and makes none of its own
    torch._dynamo.graph_break()
    return x @ x


@contextlib.contextmanager
def cold():
    """Inductor has compiled nothing yet, and compiles in this thread."""
    with torch._inductor.config.patch(compile_threads=1), torch._inductor.utils.fresh_cache():
        yield


def counted(function, **options):
    """Everything that torch.compile counts and leaves, of a function that is called with two shapes."""
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    torch._dynamo.utils.clear_compilation_metrics()
    random.seed(7)
    torch.manual_seed(7)
    with cold(), not_collected():
        call = torch.compile(function, **options)
        results = [call(each).tolist() for each in (SQUARE, WIDER)]
    kept = (
        "compile_id",
        "co_name",
        "cache_size",
        "guard_count",
        "graph_op_count",
        "graph_node_count",
        "graph_input_count",
        "restart_reasons",
        "recompile_reason",
        "fail_type",
    )
    return {
        "results": results,
        "counters": {name: dict(counters[name]) for name in counters},
        "frames": [
            {key: getattr(each, key) for key in kept}
            for each in torch._dynamo.utils.get_compilation_metrics()
            if each.compile_id is not None  # without one: what PyTorch had gathered of runs, in earlier tests too
        ],
        "random": (random.random(), torch.rand(1).item()),
        "settings": [
            str(sorted(each.get_config_copy().items())) for each in (torch._dynamo.config, torch._inductor.config)
        ],
    }


# --- counts -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
def test_torch_compile_counts_and_leaves_the_same_with_the_bridge(instrument, backend):
    bare = counted(breaks_and_multiplies, **BACKENDS[backend])
    assert sum(bare["counters"]["graph_break"].values()) == 2
    assert [each["recompile_reason"] is None for each in bare["frames"]] == [True, True, False], bare["frames"]
    instrument()
    assert counted(breaks_and_multiplies, **BACKENDS[backend]) == bare


def test_handlers_that_raise_change_nothing_either(instrument, monkeypatch, exporter):
    bare = counted(breaks_and_multiplies, backend="eager")
    called = set()

    def raising(name):
        def raises(*_args):
            called.add(name)
            raise RuntimeError("of torchspan")

        return raises

    for name in ("report", "measured", "broke", "captured"):
        monkeypatch.setattr(Frames, name, raising(name))
    instrument()
    assert counted(breaks_and_multiplies, backend="eager") == bare
    assert called == {"report", "measured", "broke", "captured"}
    assert exporter.get_finished_spans() == ()


# --- hooks of the program's -------------------------------------------------------------------------------------------
@pytest.fixture
def heard():
    """What hooks of the program's are called with, in order."""
    return []


@pytest.fixture
def hooks(heard):
    """Hooks of the program's at what PyTorch offers for them; returns whether they are registered."""

    def starts(_args):
        heard.append("start")

    def ends(_args):
        heard.append("end")

    def user_context():
        heard.append("user context")
        return "of the program"

    def bytecode(old, _new):
        heard.append(f"bytecode {old.co_name}")

    callback.on_compile_start(starts)
    callback.on_compile_end(ends)
    torch._dynamo.register_hook_for_recompile_user_context(user_context)
    handle = convert_frame.register_bytecode_hook(bytecode)
    yield (
        lambda: (
            starts in callback.callback_handler.start_callbacks
            and ends in callback.callback_handler.end_callbacks
            and user_context in torch._dynamo.utils.get_hook_for_recompile_user_context()
            and bytecode in convert_frame._bytecode_hooks.values()
        )
    )
    handle.remove()
    torch._dynamo.utils.get_hook_for_recompile_user_context().remove(user_context)
    torch._dynamo.reset()


def test_hooks_of_the_program_are_called_as_often_and_stay(instrument, hooks, heard):
    def called():
        heard.clear()
        torch.compile(compiled.plain, backend="eager")(SQUARE)
        torch._dynamo.reset_code(compiled.plain.__code__)
        return [*heard]

    bare = called()
    assert bare == ["user context", "start", "bytecode plain", "end"]
    instrumentor = instrument()
    assert hooks()
    assert called() == bare
    instrumentor.uninstrument()
    assert hooks()
    assert called() == bare


@pytest.mark.fault("libraries", "Dynamo is reset")
def test_frames_are_seen_again_after_dynamo_was_reset(instrument, exporter):
    instrument()
    for _ in range(2):
        torch.compile(compiled.plain, backend="eager")(SQUARE)
        torch._dynamo.reset()
    spans = exporter.get_finished_spans()
    assert outline(spans) == ["torch.compile_frame\n  torch.compile_phase backend_compile"] * 2


# --- backends of the program's that call Torch-TensorRT's -------------------------------------------------------------
def own_backend(module, inputs, **options):
    return torch_tensorrt.dynamo.backend.torch_tensorrt_backend(
        module, inputs, options={"min_block_size": 1, **options}
    )


def above_the_compilation(spans):
    """The names of what is around the one compilation of Torch-TensorRT, outermost first."""
    by_id = {each.context.span_id: each for each in spans}
    found, names = named(spans, "torch_tensorrt.compile"), []
    while found.parent is not None:
        found = by_id[found.parent.span_id]
        names.insert(0, found.name)
    return names


def test_a_backend_of_the_programs_own_name_has_the_compilation_below_its_phase(instrument, exporter):
    registry = torch._dynamo.backends.registry
    torch._dynamo.register_backend(own_backend, name="tests_own")
    try:
        instrument()
        torch.compile(models.seeded(models.Mlp), backend="tests_own")(torch.ones(2, 16))
    finally:
        registry._BACKENDS.pop("tests_own")
        registry._COMPILER_FNS.pop("tests_own", None)
    spans = exporter.get_finished_spans()
    assert above_the_compilation(spans) == ["torch.compile_frame", "torch.compile_phase backend_compile"]
    assert named(spans, "torch_tensorrt.compile").attributes["torch.compile.id"] == "0/0"


def test_a_graph_that_goes_by_aotautograd_has_the_compilation_below_the_backends_phase(instrument, exporter):
    instrument()
    result = torch.compile(lambda x: torch.vmap(lambda row: row * 2)(x), **BACKENDS["tensorrt"])(SQUARE)
    assert torch.equal(result, SQUARE * 2)
    found = above_the_compilation(exporter.get_finished_spans())
    assert found[:2] == ["torch.compile_frame", "torch.compile_phase backend_compile"]
    assert {each.partition(" ")[0] for each in found[2:]} <= {"torch.compile_phase"}


def test_a_failure_that_torch_tensorrt_swallows_below_an_own_backend_marks_the_frame(instrument, exporter, converter):
    instrument()
    converter(models.raises(RuntimeError("boom")))
    model, x = models.seeded(models.Fallback), models.image()
    assert torch.equal(torch.compile(model, backend=own_backend)(x), model(x))
    frame = named(exporter.get_finished_spans(), "torch.compile_frame")
    assert frame.attributes["torch.compile.outcome"] == "fallen_back"
    assert frame.attributes["torch.compile.failure.type"] == "RuntimeError"
