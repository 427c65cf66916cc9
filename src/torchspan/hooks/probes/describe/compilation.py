# SPDX-License-Identifier: Apache-2.0
"""Entry points, settings, and the result of a compilation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from torchspan.base import reading
from torchspan.base.reading import attribute
from torchspan.base.scratch import FAILED_CHILD, Key, Scratch
from torchspan.hooks.probes._call import Call
from torchspan.hooks.probes.describe import fallback, refusal
from torchspan.hooks.probes.describe.common import (
    LIST_LIMIT,
    calls,
    children,
    inputs,
    model_class,
    node_count,
    operator_name,
    stand_in,
)
from torchspan.words import semconv
from torchspan.words.semconv import FallbackReason


# --- graphs before and after a transformation -----------------------------------------------------------------------
def graph_in(call: Call) -> Facts:
    """The graph, module or exported program that the first argument is."""
    first = call.args[0] if call.args else next(iter(call.kwargs.values()), None)
    return {semconv.NODES_BEFORE: node_count(first)}


def graph_out(_call: Call, result: Any, _scratch: Scratch) -> Facts:
    """The graph that came back."""
    return {semconv.NODES_AFTER: node_count(result)}


def lowering_pass(name: str, call: Call) -> Facts:
    """One pass of a pass manager, by its function's name."""
    return {semconv.PASS_NAME: name, **graph_in(call)}


# ------------------------------------------------------------------------------------------------------------------
Facts = dict[str, Any]

ENGINE_PREFIX = "_run_on_acc"
"""The prefix of Torch-TensorRT's names for the subgraphs that become engines."""


FROM_DYNAMO = "torch.compile"
"""The entry point of graphs that Dynamo hands over."""

NOTHING_IN_TENSORRT: Facts = {
    semconv.OPERATORS_TENSORRT: 0,
    semconv.COVERAGE: 0.0,
    semconv.ENGINE_COUNT: 0,
    semconv.ENGINES_SIZE: 0,
}
"""The result of a compilation that left its whole graph to PyTorch."""

OUTCOME = (semconv.OPERATORS_TENSORRT, semconv.COVERAGE, *fallback.KEYS)
"""Where the operators run. Known once a compilation or a refit has returned."""


def settings(holder: Any) -> Facts:
    """The documented settings that `holder` (a Call or a CompilationSettings) has."""
    read = holder.get if type(holder) is Call else lambda name: attribute(holder, name)
    facts: Facts = {}
    for name, row in semconv.SETTINGS.items():
        value = read(name)
        if (row.type == "boolean" and type(value) is bool) or (row.type == "int" and type(value) is int):
            facts[row] = value
        elif row.type == "string[]" and (entries := reading.entries(value)):
            facts[row] = sorted(map(operator_name, entries))[:LIST_LIMIT]
    return facts


def torch_tensorrt_compiled(_call: Call, result: Any, _scratch: Scratch) -> Facts:
    """With `ir="torch_compile"` the result is Dynamo's and compiles at its first call."""
    optimized = reading.class_name(type(result)) == "OptimizedModule"
    return {semconv.DEFERRED: True} if optimized or reading.has(result, "_torchdynamo_orig_callable") else {}


def of_exported_program(entry_point: str) -> Callable[[Call], Facts]:
    """A description of a function of an exported program, whose settings are all parameters."""
    return lambda call: _described(entry_point, "dynamo", call.get("exported_program"), call)


def of_module(entry_point: str) -> Callable[[Call], Facts]:
    """A description of a function of a module. Its arguments beyond its own parameters are settings."""
    return lambda call: _described(entry_point, reading.text(call.get("ir")), call.get("module"), call)


def _described(entry_point: str, ir: str | None, model: Any, holder: Any) -> Facts:
    """holder: has the settings."""
    return {
        semconv.ENTRY_POINT: entry_point,
        semconv.IR: ir,
        semconv.MODEL_CLASS: model_class(model),
        **settings(holder),
    }


def with_inputs(describe: Callable[[Call], Facts]) -> Callable[[Call], Facts]:
    """The description, with the shapes and data types of the call's inputs."""

    def describe_with_inputs(call: Call) -> Facts:
        shapes, dtypes = inputs(call.get("inputs"), call.get("arg_inputs"), call.get("kwarg_inputs"))
        return {**describe(call), semconv.INPUT_SHAPES: shapes, semconv.INPUT_DTYPES: dtypes}

    return describe_with_inputs


def mutable_compile(call: Call) -> Facts:
    """`MutableTorchTensorRTModule.compile(self)`: at its first call, for a new shape, after a refit that failed."""
    return {**mutable_refit(call), semconv.IR: "dynamo"}


def torch_compile_backend(call: Call) -> Facts:
    """The backend of `torch.compile`, called by Dynamo once per graph."""
    context = reading.loaded("torch._guards", "CompileContext")
    compile_id = context.current_compile_id() if context is not None else None
    return {
        **_described(FROM_DYNAMO, "torch_compile", call.get("gm"), call.get("settings")),
        semconv.COMPILE_ID: None if compile_id is None else str(compile_id),
    }


def compiled_module(call: Call, result: Any) -> Any:
    """The module that a compilation returned. None if that is the graph it was given, or compiles only when it is called."""
    is_given = result is call.get("gm") or result is call.get("module")
    return result if _is_graph_module(result) and not is_given else None


def compiled_by_itself(call: Call, _result: Any) -> Any:
    """The module that a `MutableTorchTensorRTModule` calls from now on."""
    return compiled_module(call, attribute(call.get("self"), "gm"))


def program_with_engines(_call: Call, result: Any) -> Any:
    """The module of an exported program, if its graph runs engines; else None.

    Torch-TensorRT writes engines as calls of the operator `execute_engine` (torch_tensorrt/dynamo/_exporter.py).
    """
    if not _is_graph_module(result):
        return None
    targets = (node.target for node in result.graph.nodes if node.op == "call_function")
    return result if any("execute_engine" in str(target) for target in targets) else None


def _is_graph_module(value: Any) -> bool:
    return reading.is_a(value, reading.loaded("torch.fx.graph_module", "GraphModule"))


_ATTENTION_OF_THE_CPU = "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default"

COMPILED: Key[bool] = Key("compiled")
"""Scratch key: set once `compile_module` has returned."""

WHOLE: Key[Facts] = Key("whole")
"""Scratch key: what holds where the whole graph goes to TensorRT; empty if an operator of it has no converter."""

SWALLOWED: Key[str] = Key("swallowed")
"""Scratch key: the class of a failure that the backend of `torch.compile` caught."""


def torch_compile_result(_call: Call, _result: Any, scratch: Scratch) -> Facts:
    """If the backend returns although `compile_module` never did, it caught a failure and left the graph to PyTorch.

    (It returns the graph it was given, or, up to 2.11, that graph lowered. A graph that is skipped on purpose is returned by
    `compile_module`.)
    """
    if COMPILED in scratch:
        return {}
    failure = scratch.get(FAILED_CHILD)
    verdicts = Counter(scratch.get(fallback.VERDICTS, {}).values())
    operators = Counter({FallbackReason.COMPILE_FAILED: verdicts.pop(fallback.SUPPORTED, 0)})
    plan: Facts = scratch.get(fallback.PLAN, {})
    scratch[SWALLOWED] = semconv.OTHER if failure is None else semconv.class_name(failure)
    return {
        **not_carried_out(scratch),
        **plan,
        **fallback.totals(operators + verdicts, Counter([FallbackReason.COMPILE_FAILED])),
        semconv.ERROR_TYPE: scratch[SWALLOWED],
        semconv.FALLBACK_REASON_CLASSES: [FallbackReason.COMPILE_FAILED],
        **NOTHING_IN_TENSORRT,
    }


def converter_support(_call: Call, result: Any, scratch: Scratch) -> Facts:
    """`get_graph_converter_support` returns (supported, total)."""
    if type(result) is not tuple or len(result) != 2:
        return {}
    supported, total = map(reading.whole_number, result)
    whole: Facts = {semconv.OPERATORS_TENSORRT: total, semconv.COVERAGE: 1.0} if total and supported == total else {}
    scratch[WHOLE] = whole
    return {semconv.OPERATORS_SUPPORTED: supported, semconv.OPERATORS_TOTAL: total}


def attention_decomposed(_call: Call, _result: Any, _scratch: Scratch) -> Facts:
    """A call of the decomposition of attention by its name. Only the stand-in for a GPU calls it so without a GPU."""
    without_gpu = stand_in(reading.loaded("torch.cuda", "current_device"))
    return {semconv.STAND_IN_DECOMPOSED: [_ATTENTION_OF_THE_CPU]} if without_gpu else {}


def compile_module_settings(call: Call) -> Facts:
    """The settings of every route meet in `compile_module`."""
    return settings(call.get("settings"))


def compile_module_result(call: Call, result: Any, scratch: Scratch) -> Facts:
    """Engines and their bytes. For a graph that was skipped as a whole, the reason."""
    scratch[COMPILED] = True
    engines = [child for name, child in children(result) if name.startswith(ENGINE_PREFIX)]
    if result is call.get("gm") and not engines:  # the global partitioner changes the graph in place
        return skipped(result, scratch)
    sizes = [reading.size(attribute(engine, "serialized_engine")) or 0 for engine in engines]
    facts: Facts = {semconv.ENGINE_COUNT: len(engines), semconv.ENGINES_SIZE: sum(sizes)}
    if reading.switch(attribute(call.get("settings"), "dryrun")):
        return {**dry_run(scratch), **facts}
    return {**_carried_out(scratch, has_engines=bool(engines)), **facts}


def _carried_out(scratch: Scratch, *, has_engines: bool = True) -> Facts:
    """The partition's plan. Where no operator was asked about, a graph that is supported as a whole was taken as it is."""
    plan: Facts = scratch.get(fallback.PLAN, {})
    whole: Facts = scratch.get(WHOLE, {})
    return {**whole, **plan} if has_engines and semconv.OPERATORS_TENSORRT not in plan else plan


def dry_run(scratch: Scratch) -> Facts:
    """The partition's plan if nothing is to run in TensorRT. Programs use a dry run to see what would be left in PyTorch."""
    plan: Facts = scratch.get(fallback.PLAN, {})
    said = {*fallback.KEYS, *refusal.KEYS}
    return {**not_carried_out(scratch), **{key: value for key, value in plan.items() if key in said}}


def failed(_call: Call, _error: BaseException, scratch: Scratch) -> Facts:
    """A compilation or a refit that raised: nothing of it runs, neither in TensorRT nor in PyTorch.

    If a partition got that far, the number of operators that were not to run in TensorRT, and the reasons, are still known.
    """
    return {**dict.fromkeys(OUTCOME), **not_carried_out(scratch), **fallback.unsupported_totals(scratch)}


def not_carried_out(scratch: Scratch) -> Facts:
    """The number of operators that were planned for TensorRT, if a partition got that far."""
    plan = scratch.get(fallback.PLAN)
    planned = None if plan is None else plan.get(semconv.OPERATORS_TENSORRT)
    return {} if planned is None else {semconv.OPERATORS_PLANNED: planned}


def skipped(graph: Any, scratch: Scratch) -> Facts:
    """Why nothing of a graph went to TensorRT, and what is in it."""
    left = fallback.left_in_torch(calls(graph), scratch)
    supported = any(node.reason == FallbackReason.MIN_BLOCK_SIZE for node in left)
    reason = FallbackReason.MIN_BLOCK_SIZE if supported else FallbackReason.NO_SUPPORTED_OPERATORS
    facts = fallback.facts(left, Counter([reason]), scratch)
    reasons = [
        reason,
        *(class_name for class_name in facts.get(semconv.FALLBACK_REASON_CLASSES, []) if class_name != reason),
    ]
    return {
        **fallback.totals(Counter(), Counter([reason])),  # a graph without an operator is left to PyTorch as well
        **facts,
        semconv.FALLBACK_REASON_CLASSES: reasons,
        **NOTHING_IN_TENSORRT,
    }


def program_given(name: str) -> Callable[[Call], Any]:
    """A function that picks the argument `name` where it is an ExportedProgram, and None otherwise."""

    def pick(call: Call) -> Any:
        given = call.get(name)
        return given if reading.is_a(given, reading.loaded("torch.export", "ExportedProgram")) else None

    return pick


# --- new weights for built engines ----------------------------------------------------------------------------------
def refit_module_weights(call: Call) -> Facts:
    """`torch_tensorrt.dynamo.refit_module_weights(compiled_module, new_weight_module)`."""
    return {
        semconv.ENTRY_POINT: "torch_tensorrt.dynamo.refit_module_weights",
        semconv.MODEL_CLASS: model_class(call.get("new_weight_module")),
    }


def mutable_refit(call: Call) -> Facts:
    """`MutableTorchTensorRTModule.refit_gm(self)`: the module noticed at a call that its weights were changed."""
    return {
        semconv.ENTRY_POINT: "torch_tensorrt.MutableTorchTensorRTModule",
        semconv.MODEL_CLASS: model_class(attribute(call.get("self"), "original_model")),
    }


def refitted(_call: Call, result: Any, scratch: Scratch) -> Facts:
    """The module with the new weights. Without an engine, it is a model that was skipped and runs in PyTorch."""
    names = [
        *(name for name, _ in children(result)),
        *reading.instance_dict(result),
    ]  # the others of an inlined program
    engines = {name for name in names if name.startswith(ENGINE_PREFIX)}
    if engines:
        return {**_carried_out(scratch), semconv.ENGINE_COUNT: len(engines)}
    facts = skipped(result, scratch)
    return {key: facts[key] for key in facts if key != semconv.ENGINES_SIZE}


def outputs_match(_call: Call, result: Any, _scratch: Scratch) -> Facts:
    """`check_module_output` returns whether the refitted module computes what the model does. A difference is only logged."""
    return {semconv.REFIT_OUTPUTS_MATCH: reading.switch(result)}
