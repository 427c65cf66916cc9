# SPDX-License-Identifier: Apache-2.0
"""Whole traces of real compilations, literally."""

import re

import pytest
import torch
import torch_tensorrt

from pipeline.expected import (
    EVERYTHING,
    GPU_MEMORY,
    KEEP,
    NO_CACHE,
    SETTINGS,
    STAND_IN,
    VERSION,
    VERSIONS,
    by_version,
)
from support import models
from support import recorded as work
from support.tree import (
    BUILDER,
    COUNTS,
    NAMES,
    POSITIVE,
    SECONDS,
    STEPS,
    Any_,
    S,
    assert_trees,
    called_at,
    differences,
    in_any_order,
    outline,
    trees,
)

ENGINE_ID = Any_(str, lambda text: re.fullmatch("[0-9a-f]{16}", text) is not None, "<16 hexadecimal digits>")


def planned(counted):
    """What a partition says of the operators: it plans, and the compilation around it says what came of the plan."""
    kept = {key: value for key, value in counted.items() if key.endswith((".total", ".supported"))}
    return {**kept, "torch_tensorrt.operators.planned": counted["torch_tensorrt.operators.tensorrt"]}


def graph(before, after):
    return {"torch.graph.nodes.before": before, "torch.graph.nodes.after": after}


TRACED = S("torch.export.trace", KEEP)
"""The one part that a non-strict export has."""


def decomposition(before, after):
    """What a decomposition by Torch-TensorRT's table did."""
    return {**KEEP, **STEPS, **graph(before, after)}


def of(model, *modules):
    """What names an engine; no modules for a graph that does not name them."""
    return {"torch.model.class": model, **({"torch_tensorrt.engine.modules": modules} if modules else {})}


def engine(name="_run_on_acc_0", *, names, layers, shapes, dtypes, operators, converters=NAMES):
    """One conversion on the RTX wheel: network, build, and the reading and setting up of the engine."""
    size = {"tensorrt.engine.size": POSITIVE, "tensorrt.engine.id": ENGINE_ID}
    python_runtime = {"torch_tensorrt.runtime": "python"}
    reading = S("tensorrt.deserialize_engine", {**KEEP, **STAND_IN, **size})
    return S(
        "torch_tensorrt.convert",
        {
            **KEEP,
            **STEPS,
            **NO_CACHE,
            **size,
            **names,
            "torch_tensorrt.engine.name": name,
            "torch_tensorrt.engine.operators": operators,
            "torch.inputs.shapes": shapes,
            "torch.inputs.dtypes": dtypes,
        },
        S(
            "torch_tensorrt.construct_network",
            {
                **KEEP,
                "tensorrt.network.layers": layers,
                "torch_tensorrt.converters.operators": converters,
                "torch_tensorrt.converters.counts": COUNTS,
                "torch_tensorrt.converters.durations": SECONDS,
            },
        ),
        S(
            "tensorrt.build_engine",
            {
                **KEEP,
                **BUILDER,
                **GPU_MEMORY,
                **size,
                "tensorrt.network.layers": layers,
            },
        ),
        reading,
        S(
            "torch_tensorrt.setup_engine",
            {**KEEP, **STAND_IN, **size, **python_runtime, "torch_tensorrt.engine.name": name},
            reading,
        ),
    )


def execute(name="_run_on_acc_0", *, names, shapes, dtypes, first=True):
    # Before 2.13 the Python runtime has its execution context from the start.
    steps = STEPS if first and VERSION >= (2, 13) else {}
    return S(
        "torch_tensorrt.execute",
        {
            **STAND_IN,
            **steps,
            **names,
            "tensorrt.engine.id": ENGINE_ID,
            "torch_tensorrt.engine.name": name,
            "torch_tensorrt.execute.first": first,
            "torch.inputs.shapes": shapes,
            "torch.inputs.dtypes": dtypes,
        },
    )


@pytest.mark.skipif(VERSION < (2, 12), reason="2.11 refuses two nodes of this model, so it has three engines there")
def test_bert_traced_and_compiled_under_a_request(instrument, exporter, tracer):
    instrument()
    model, ids = models.bert(), torch.arange(32).reshape(2, 16)

    with tracer.start_as_current_span("request"):
        program = torch_tensorrt.dynamo.trace(model, arg_inputs=[ids])
        compiled = torch_tensorrt.dynamo.compile(program, arg_inputs=[ids], min_block_size=1)
        compiled(ids)

    nodes, decomposed, lowered, operators, layers = by_version(
        {(2, 11): (123, 117, 103, 61, 172), (2, 14): (123, 112, 98, 56, 159)}
    )
    supported = (
        "torch.ops.aten.linear.default",
        "torch.ops.aten._reshape_copy.default",
        "torch.ops.aten.permute.default",
        "torch.ops.aten.add.Tensor",
        "_operator.getitem",
        "torch.ops.aten.native_layer_norm.default",
        "torch.ops.aten.clone.default",
        "torch.ops.aten.gelu.default",
        "torch.ops.aten.embedding.default",
        "torch.ops.aten.select.int",
        "torch.ops.aten.tanh.default",
    )
    # The library lists no operator that it takes for impure (attention may drop out), and converts it all the same.
    attention = "torch.ops.aten.scaled_dot_product_attention.default"
    converters = by_version({(2, 11): NAMES, (2, 14): in_any_order(*supported, attention)})
    inputs = {
        "torch.inputs.shapes": ("[2, 16]",),
        "torch.inputs.dtypes": ("int64",),
    }
    exported = {
        **KEEP,
        "torch.model.class": "BertModel",
        "torch.export.strict": False,
        "torch.graph.nodes.count": nodes,
    }
    counted = {
        "torch_tensorrt.operators.total": operators,
        "torch_tensorrt.operators.supported": operators,
        "torch_tensorrt.operators.tensorrt": operators,
        **EVERYTHING,
    }
    expected = [
        S(
            "request",
            {},
            S("torch_tensorrt.trace", {**exported, **inputs}, S("torch.export", {**exported, **inputs}, TRACED)),
            S(
                "torch_tensorrt.compile",
                {
                    **KEEP,
                    **VERSIONS,
                    **SETTINGS,
                    **STEPS,
                    **counted,
                    "torch_tensorrt.entry_point": "torch_tensorrt.dynamo.compile",
                    **called_at("pipeline/test_trees.py", "test_bert_traced_and_compiled_under_a_request"),
                    "torch_tensorrt.ir": "dynamo",
                    "torch.model.class": "BertModel",
                    "torch_tensorrt.engines.count": 1,
                    "torch_tensorrt.engines.size": POSITIVE,
                },
                S("torch_tensorrt.lower.pre_export", {**KEEP, **graph(nodes, nodes)}),
                S("torch_tensorrt.decompose", decomposition(nodes, decomposed)),
                S("torch_tensorrt.lower", {**KEEP, **graph(decomposed + 1, lowered)}),
                S(
                    "torch_tensorrt.partition",
                    {
                        **KEEP,
                        **planned(counted),
                        "torch_tensorrt.partitioner": "fast",
                        "torch_tensorrt.subgraphs.tensorrt": 1,
                        "torch_tensorrt.subgraphs.torch": 0,
                    },
                ),
                engine(
                    names=of("BertModel", "embeddings", "pooler"),
                    layers=layers,
                    operators=operators,
                    shapes=("[2, 16]",),
                    dtypes=("int64",),
                    converters=converters,
                ),
            ),
            execute(names=of("BertModel", "embeddings", "pooler"), shapes=("[2, 16]",), dtypes=("int64",)),
        )
    ]
    assert_trees(exporter.get_finished_spans(), expected)


CONV_NET = (
    "_operator.getitem",
    "torch.ops.aten._native_batch_norm_legit_no_training.default",
    "torch.ops.aten._reshape_copy.default",
    "torch.ops.aten.convolution.default",
    "torch.ops.aten.linear.default",
    "torch.ops.aten.max_pool2d.default",
    "torch.ops.aten.relu.default",
)


def test_a_convolutional_net_from_the_entry_point_most_programs_call(recorded):
    nodes, decomposed, lowered, operators, layers = by_version(
        {(2, 11): (17, 19, 17, 7, 24), (2, 12): (17, 19, 17, 7, 11), (2, 14): (17, 19, 17, 7, 10)}
    )
    converters = by_version({(2, 11): NAMES, (2, 14): in_any_order(*CONV_NET)})
    shapes = {
        "torch.inputs.shapes": ("[2, 3, 16, 16]",),
        "torch.inputs.dtypes": ("float32",),
    }
    exported = {
        **KEEP,
        "torch.model.class": "ConvNet",
        "torch.export.strict": False,
        "torch.graph.nodes.count": nodes,
    }
    counted = {
        "torch_tensorrt.operators.total": operators,
        "torch_tensorrt.operators.supported": operators,
        "torch_tensorrt.operators.tensorrt": operators,
        **EVERYTHING,
    }
    expected = [
        S(
            "torch_tensorrt.compile",
            {
                **KEEP,
                **VERSIONS,
                **SETTINGS,
                **STEPS,
                **counted,
                "torch_tensorrt.entry_point": "torch_tensorrt.compile",
                **called_at("support/recorded.py", "_compiled_and_called"),
                "torch_tensorrt.ir": "dynamo",
                "torch.model.class": "ConvNet",
                "torch_tensorrt.engines.count": 1,
                "torch_tensorrt.engines.size": POSITIVE,
            },
            S("torch_tensorrt.trace", {**exported, **shapes}, S("torch.export", {**exported, **shapes}, TRACED)),
            S("torch_tensorrt.lower.pre_export", {**KEEP, **graph(nodes, nodes)}),
            S(
                "torch_tensorrt.decompose",
                decomposition(nodes, decomposed),
            ),
            S("torch_tensorrt.lower", {**KEEP, **graph(decomposed + 1, lowered)}),
            S(
                "torch_tensorrt.partition",
                {
                    **KEEP,
                    **planned(counted),
                    "torch_tensorrt.partitioner": "fast",
                    "torch_tensorrt.subgraphs.tensorrt": 1,
                    "torch_tensorrt.subgraphs.torch": 0,
                },
            ),
            engine(
                names=of("ConvNet", "conv", "linear"),
                layers=layers,
                operators=operators,
                shapes=("[2, 3, 16, 16]",),
                dtypes=("float32",),
                converters=converters,
            ),
        ),
        execute(names=of("ConvNet", "conv", "linear"), shapes=("[2, 3, 16, 16]",), dtypes=("float32",)),
    ]
    assert_trees(recorded(work.conv_net).spans, expected)


BACKEND_COMPILE = "torch.compile_phase backend_compile"


def frame_of_forward(backends_work):
    """The frame of a `forward` of tests/support/models.py, compiled the first time."""
    return S(
        "torch.compile_frame",
        {
            **KEEP,
            **STEPS,
            "torch.compile.id": "0/0",
            "torch.compile.outcome": "compiled",
            "torch.compile.guards.count": POSITIVE,
            "torch.compile.graph.operators": 10,
            "code.function.name": "forward",
            "code.file.path": "support/models.py",
            "code.line.number": 44,
        },
        S(BACKEND_COMPILE, {**KEEP, "torch.compile.phase.name": "backend_compile"}, backends_work),
    )


def test_torch_compile_with_an_operator_that_falls_back(instrument, exporter, tracer):
    instrument()
    model, x = models.seeded(models.Fallback), models.image()
    compiled = torch.compile(model, backend="tensorrt", options={"min_block_size": 1})

    with tracer.start_as_current_span("request"):
        compiled(x)
        compiled(x)

    fallback = {
        "torch_tensorrt.fallback.reason_classes": ("no_converter",),
        "torch_tensorrt.fallback.operators.names": ("torch.ops.aten.special_i1e.default",),
        "torch_tensorrt.fallback.operators.counts": (1,),
        "torch_tensorrt.fallback.operators.reasons": ("no_converter",),
        "torch_tensorrt.fallback.operators.places": ("?",),
        "torch_tensorrt.fallback.operators.place_counts": (0,),
        "torch_tensorrt.fallback.totals.reasons": ("no_converter",),
        "torch_tensorrt.fallback.totals.operators": (1,),
        "torch_tensorrt.fallback.totals.subgraphs": (1,),
    }
    counted = {
        "torch_tensorrt.operators.total": 6,
        "torch_tensorrt.operators.supported": 5,
        "torch_tensorrt.operators.tensorrt": 5,
        "torch_tensorrt.coverage": 5 / 6,
        "torch_tensorrt.compile.outcome": "fallback",
    }
    before, after = by_version({(2, 11): (16, 17), (2, 14): (16, 17)})
    # Dynamo makes the weights inputs of the graph, and so of the engines.
    first = {
        "names": of("Fallback"),
        "shapes": ("[2, 3, 16, 16]", "[8, 3, 3, 3]", "[8]", "[4, 8]"),
        "dtypes": ("float32",) * 4,
    }
    second = {"names": of("Fallback"), "shapes": ("[2, 8, 14, 14]", "[4]", "[8, 4]"), "dtypes": ("float32",) * 3}
    expected = [
        S(
            "request",
            {},
            frame_of_forward(
                S(
                    "torch_tensorrt.compile",
                    {
                        **KEEP,
                        **VERSIONS,
                        **SETTINGS,
                        **STEPS,
                        **counted,
                        **fallback,
                        "torch_tensorrt.entry_point": "torch.compile",
                        "torch_tensorrt.ir": "torch_compile",
                        "torch.model.class": "Fallback",
                        "torch.compile.id": "0/0",
                        "torch_tensorrt.engines.count": 2,
                        "torch_tensorrt.engines.size": POSITIVE,
                    },
                    S("torch_tensorrt.decompose", {**KEEP, **graph(before, after)}),
                    S("torch_tensorrt.lower", {**KEEP, **graph(17, 12)}),
                    S(
                        "torch_tensorrt.partition",
                        {
                            **KEEP,
                            **planned(counted),
                            **fallback,
                            "torch_tensorrt.partitioner": "fast",
                            "torch_tensorrt.subgraphs.tensorrt": 2,
                            "torch_tensorrt.subgraphs.torch": 1,
                        },
                    ),
                    engine("_run_on_acc_0", layers=3, operators=3, **first),
                    engine("_run_on_acc_2", layers=5, operators=2, **second),
                ),
            ),
            execute("_run_on_acc_0", **first),
            execute("_run_on_acc_2", **second),
            execute("_run_on_acc_0", **first, first=False),
            execute("_run_on_acc_2", **second, first=False),
        )
    ]
    actual = trees(exporter.get_finished_spans())
    (backend,) = actual[0].find(BACKEND_COMPILE)
    for name in STEPS:  # phases that took long are spans instead, so a slow machine may have no short ones
        backend.attributes.pop(name, None)
    (frame,), (expected_frame,) = (tree[0].find("torch.compile_frame") for tree in (actual, expected))
    if not STEPS.keys() & frame.attributes.keys():
        for name in STEPS:
            del expected_frame.attributes[name]
    assert differences(actual, expected) == []


def test_dynamic_shapes_show_their_ranges(instrument, exporter):
    instrument()
    batch = torch_tensorrt.Input(min_shape=(1, 16), opt_shape=(4, 16), max_shape=(8, 16), dtype=torch.float32)

    compiled = torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[batch], min_block_size=1)
    compiled(torch.ones(7, 16))

    exported = {
        **KEEP,
        "torch.model.class": "Mlp",
        "torch.export.strict": False,
        "torch.graph.nodes.count": 9,
    }
    shapes = {
        "torch.inputs.shapes": ("[1..4..8, 16]",),
        "torch.inputs.dtypes": ("float32",),
    }
    counted = {
        "torch_tensorrt.operators.total": 3,
        "torch_tensorrt.operators.supported": 3,
        "torch_tensorrt.operators.tensorrt": 3,
        **EVERYTHING,
    }
    layers = by_version({(2, 11): 11})
    expected = [
        S(
            "torch_tensorrt.compile",
            {
                **KEEP,
                **VERSIONS,
                **SETTINGS,
                **STEPS,
                **counted,
                "torch_tensorrt.entry_point": "torch_tensorrt.compile",
                **called_at("pipeline/test_trees.py", "test_dynamic_shapes_show_their_ranges"),
                "torch_tensorrt.ir": "dynamo",
                "torch.model.class": "Mlp",
                "torch_tensorrt.engines.count": 1,
                "torch_tensorrt.engines.size": POSITIVE,
            },
            S(
                "torch_tensorrt.trace",
                {**exported, **shapes},
                S(
                    "torch.export",
                    {
                        **exported,
                        **shapes,
                        "torch.inputs.shapes": ("[4, 16]",),
                        "torch.export.dynamic_shapes": ("inputs[0].shape[0]: [1, 8]",),
                    },
                    TRACED,
                ),
            ),
            S("torch_tensorrt.lower.pre_export", {**KEEP, **graph(9, 9)}),
            S("torch_tensorrt.decompose", decomposition(9, 9)),
            S("torch_tensorrt.lower", {**KEEP, **graph(10, 9)}),
            S(
                "torch_tensorrt.partition",
                {
                    **KEEP,
                    **planned(counted),
                    "torch_tensorrt.partitioner": "fast",
                    "torch_tensorrt.subgraphs.tensorrt": 1,
                    "torch_tensorrt.subgraphs.torch": 0,
                },
            ),
            engine(
                names=of("Mlp", "first", "second"),
                layers=layers,
                operators=3,
                shapes=("[1..4..8, 16]",),
                dtypes=("float32",),
            ),
        ),
        execute(names=of("Mlp", "first", "second"), shapes=("[7, 16]",), dtypes=("float32",)),
    ]
    assert_trees(exporter.get_finished_spans(), expected)


def test_at_detail_passes_each_lowering_pass_is_a_span(recorded):
    (compilation,) = trees(recorded(work.mlp, detail="passes").spans)
    (before,) = compilation.find("torch_tensorrt.lower.pre_export")
    (after,) = compilation.find("torch_tensorrt.lower")
    assert list(before.lines()) == [
        "torch_tensorrt.lower.pre_export",
        "  torch_tensorrt.pass remove_detach",
        "  torch_tensorrt.pass remove_assert_nodes",
        "  torch_tensorrt.pass rule_based_autocast",
    ]
    passes = by_version(
        {
            (2, 11): [
                "replace_fused_rms_norm",
                "remove_input_alias_fixing_clones",
                "constant_fold",
                "repair_input_as_output",
                "fuse_prims_broadcast",
                "replace_max_pool_with_indices",
                "remove_assert_nodes",
                "remove_num_users_is_0_nodes",
                "complex_graph_detection",
                "force_causal_efficient_attention",
                "fuse_distributed_ops",
            ],
            (2, 13): [
                "replace_fused_rms_norm",
                "remove_input_alias_fixing_clones",
                "constant_fold",
                "repair_input_as_output",
                "fuse_prims_broadcast",
                "replace_max_pool_with_indices",
                "remove_assert_nodes",
                "remove_num_users_is_0_nodes",
                "complex_graph_detection",
                "force_causal_efficient_attention",
                "eliminate_sym_min_int64_max",
                "normalize_negative_slice_stop",
                "annotate_fp8_sdpa",
                "fuse_distributed_ops",
            ],
            (2, 14): [
                "replace_fused_rms_norm",
                "remove_input_alias_fixing_clones",
                "mark_constant_fold_exclusions",
                "constant_fold",
                "repair_input_as_output",
                "fuse_prims_broadcast",
                "replace_max_pool_with_indices",
                "fuse_pad_into_convolution",
                "remove_assert_nodes",
                "remove_num_users_is_0_nodes",
                "complex_lowering_pass",
                "force_causal_efficient_attention",
                "eliminate_sym_min_int64_max",
                "normalize_negative_slice_stop",
                "annotate_fp8_sdpa",
                "decompose_dynamic_slice_scatter",
                "fuse_distributed_ops",
            ],
        }
    )
    assert [child.name for child in after.children] == [f"torch_tensorrt.pass {name}" for name in passes]
    assert after.children[passes.index("constant_fold")] == S(
        "torch_tensorrt.pass constant_fold",
        {**KEEP, "torch_tensorrt.pass.name": "constant_fold", **graph(10, 10)},
    )


def test_at_detail_stages_there_is_no_span_for_a_pass(recorded):
    assert outline(recorded(work.mlp, detail="stages").spans) == [
        "\n".join(
            [
                "torch_tensorrt.compile",
                "  torch_tensorrt.trace",
                "    torch.export",
                "      torch.export.trace",
                "  torch_tensorrt.lower.pre_export",
                "  torch_tensorrt.decompose",
                "  torch_tensorrt.lower",
                "  torch_tensorrt.partition",
                "  torch_tensorrt.convert",
                "    torch_tensorrt.construct_network",
                "    tensorrt.build_engine",
                "    tensorrt.deserialize_engine",
                "    torch_tensorrt.setup_engine",
                "      tensorrt.deserialize_engine",
            ]
        )
    ]
