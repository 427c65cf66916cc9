# SPDX-License-Identifier: Apache-2.0
"""What is left in PyTorch and why; counted against Torch-TensorRT's own report."""

import contextlib
import inspect

import pytest
import torch
import torch_tensorrt
from torch_tensorrt.dynamo.conversion import _ConverterRegistry as registry
from torch_tensorrt.dynamo.conversion import dynamo_tensorrt_converter
from torch_tensorrt.dynamo.lowering import _decompositions
from torch_tensorrt.dynamo.partitioning import _adjacency_partitioner as adjacency

from pipeline.expected import VERSION
from support import models
from support.tree import named

SPECIAL = "torch.ops.aten.special_i1e.default"


def compiled(model, x, **settings):
    program = torch_tensorrt.dynamo.trace(model, arg_inputs=[x])
    return torch_tensorrt.dynamo.compile(program, arg_inputs=[x], **{"min_block_size": 1, **settings})


def fallback(span):
    """operator -> (count, reason), and the classes of reason."""
    attributes = span.attributes
    rows = zip(
        attributes["torch_tensorrt.fallback.operators.names"],
        attributes["torch_tensorrt.fallback.operators.counts"],
        attributes["torch_tensorrt.fallback.operators.reasons"],
        strict=True,
    )
    return {name: (count, reason) for name, count, reason in rows}, attributes["torch_tensorrt.fallback.reason_classes"]


def totals(span):
    """reason -> (operators, pieces of the graph)."""
    names = (f"torch_tensorrt.fallback.totals.{each}" for each in ("reasons", "operators", "subgraphs"))
    rows = zip(*(span.attributes[name] for name in names), strict=True)
    return {reason: (operators, pieces) for reason, operators, pieces in rows}


def places(span):
    """operator -> (first line of the model that calls it, number of lines)."""
    names = (f"torch_tensorrt.fallback.operators.{each}" for each in ("names", "places", "place_counts"))
    return {name: (first, count) for name, first, count in zip(*(span.attributes[key] for key in names), strict=True)}


def line_of(function, text):
    """`test_fallback.py:12` for the line of a function that contains the text."""
    lines, first = inspect.getsourcelines(function)
    return f"pipeline/test_fallback.py:{next(first + number for number, line in enumerate(lines) if text in line)}"


class Twice(torch.nn.Module):
    def forward(self, x):
        once = torch.special.i1e(torch.relu(x))
        again = torch.special.i1e(torch.relu(once))
        return torch.sigmoid(again)


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "global"])
def test_an_operator_left_in_pytorch_has_the_lines_of_the_model_that_call_it(instrument, exporter, fast):
    instrument()
    compiled(Twice().eval(), torch.ones(2, 8), use_fast_partitioner=fast)
    expected = {SPECIAL: (line_of(Twice.forward, "once = "), 2)}
    assert places(named(exporter.get_finished_spans(), "torch_tensorrt.compile")) == expected
    assert places(named(exporter.get_finished_spans(), "torch_tensorrt.partition")) == expected


def test_the_graph_that_torch_compile_gives_to_torch_tensorrt_has_no_lines(instrument, exporter):
    instrument()
    torch.compile(Twice().eval(), backend="tensorrt", options={"min_block_size": 1})(torch.ones(2, 8))
    assert places(named(exporter.get_finished_spans(), "torch_tensorrt.compile")) == {SPECIAL: ("?", 0)}


class Repeated(torch.nn.Module):
    def forward(self, x):
        for _ in range(3):
            x = torch.special.i1e(torch.relu(x))
        return torch.sigmoid(torch.special.erfcx(x))


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "global"])
def test_counts_agree_with_the_librarys_own_report(instrument, exporter, trackers, fast):
    instrument()
    compiled(Repeated().eval(), torch.ones(2, 8), use_fast_partitioner=fast)
    (tracker,) = trackers
    compilation = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
    partition = named(exporter.get_finished_spans(), "torch_tensorrt.partition")
    operators, reasons = fallback(compilation)
    assert {name: count for name, (count, _) in operators.items()} == tracker.unsupported_ops
    assert operators == {
        SPECIAL: (3, "no_converter"),
        "torch.ops.aten.special_erfcx.default": (1, "no_converter"),
    }
    assert reasons == ("no_converter",)
    assert totals(compilation) == {"no_converter": (sum(tracker.unsupported_ops.values()), 3 if fast else 0)}
    assert compilation.attributes["torch_tensorrt.operators.total"] == tracker.total_ops_in_graph == 8
    assert compilation.attributes["torch_tensorrt.operators.supported"] == tracker.supported_ops_in_graph == 4
    assert compilation.attributes["torch_tensorrt.operators.tensorrt"] == 4
    assert compilation.attributes["torch_tensorrt.engines.count"] == tracker.tensorrt_graph_count
    assert partition.attributes["torch_tensorrt.partitioner"] == ("fast" if fast else "global")
    assert partition.attributes["torch_tensorrt.subgraphs.tensorrt"] == tracker.tensorrt_graph_count


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "global"])
def test_an_operator_that_the_user_excluded(instrument, exporter, fast):
    instrument()
    excluded = {"torch.ops.aten.relu.default"}
    compiled(models.seeded(models.ConvNet), models.image(), torch_executed_ops=excluded, use_fast_partitioner=fast)
    compilation = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
    assert fallback(compilation) == ({"torch.ops.aten.relu.default": (1, "user_excluded")}, ("user_excluded",))
    assert compilation.attributes["torch_tensorrt.settings.torch_executed_ops"] == ("torch.ops.aten.relu.default",)


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "global"])
def test_supported_operators_in_a_group_that_was_too_small(instrument, exporter, fast):
    instrument()
    compiled(models.seeded(models.Fallback), models.image(), min_block_size=3, use_fast_partitioner=fast)
    compilation = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
    operators, reasons = fallback(compilation)
    assert operators == {
        SPECIAL: (1, "no_converter"),
        "torch.ops.aten.convolution.default": (1, "min_block_size"),
        "torch.ops.aten.linear.default": (1, "min_block_size"),
        "torch.ops.aten.mean.dim": (1, "min_block_size"),
        "torch.ops.aten.relu.default": (1, "min_block_size"),
    }
    assert reasons == ("min_block_size", "no_converter")
    assert {reason: count for reason, (count, _) in totals(compilation).items()} == {
        "min_block_size": 4,
        "no_converter": 1,
    }
    assert compilation.attributes["torch_tensorrt.operators.supported"] == 4
    assert compilation.attributes["torch_tensorrt.operators.tensorrt"] == 0


@pytest.fixture
def refusing_converter():
    """A converter whose validator refuses every node, as the library's own do for some types and shapes."""
    asked = []
    refuse = lambda node, settings=None: asked.append(node.name) or False
    operator = torch.ops.aten.special_i1e.default
    dynamo_tensorrt_converter(operator, capability_validator=refuse)(lambda *args: None)
    yield asked
    registry.DYNAMO_ATEN_CONVERTERS.pop(operator, None)


def test_a_node_that_every_validator_refused(instrument, exporter, refusing_converter):
    compiled(models.seeded(models.Fallback), models.image())
    asked_bare = len(refusing_converter)
    instrument()
    compiled(models.seeded(models.Fallback), models.image())
    operators, reasons = fallback(named(exporter.get_finished_spans(), "torch_tensorrt.compile"))
    assert (operators, reasons) == ({SPECIAL: (1, "validator_refused")}, ("validator_refused",))
    assert len(refusing_converter) == 2 * asked_bare, "a validator may be the user's: we never call it ourselves"
    assert refused(named(exporter.get_finished_spans(), "torch_tensorrt.compile")) == {
        SPECIAL: (f"{__name__}.refusing_converter", "self: float32")
    }


def refused(span):
    """operator -> (validators, arguments) of what was refused."""
    names = (f"torch_tensorrt.refused.operators.{each}" for each in ("names", "validators", "arguments"))
    return {name: (asked, given) for name, asked, given in zip(*(span.attributes[each] for each in names), strict=True)}


class Bits(torch.nn.Module):
    """Operators whose converters in the library refuse what they are given."""

    def forward(self, x):
        y = torch.relu(x)
        return y, torch.bitwise_not((y * 4).to(torch.int32)), torch.sort(y, dim=0, stable=True).values


@pytest.mark.parametrize("full", [False, True], ids=["partly", "required in full"])
def test_the_librarys_validators_are_named_with_what_they_were_asked_about(instrument, exporter, full):
    instrument()
    settings = {"require_full_compilation": True} if full else {"dryrun": True}
    with pytest.raises(AssertionError) if full else contextlib.nullcontext():
        compiled(Bits().eval(), torch.ones(2, 8), **settings)
    library = "torch_tensorrt.dynamo.conversion."
    for name in ("torch_tensorrt.partition", "torch_tensorrt.compile"):
        assert refused(named(exporter.get_finished_spans(), name)) == {
            "torch.ops.aten.bitwise_not.default": (
                library + "aten_ops_converters.bitwise_not_type_validator",
                "self: int32",
            ),
            "_operator.getitem": (
                library + "ops_evaluators.getitem_validator",
                "argument 0: float32 int64, argument 1",
            ),
        }


class Complex(torch.nn.Module):
    def forward(self, x):
        return torch.fft.fft(torch.relu(x)).abs() + 1


@pytest.mark.skipif(VERSION < (2, 12), reason="2.11 raises on complex numbers (upstream)")
def test_complex_numbers(instrument, exporter, version):
    instrument()
    compiled(Complex().eval(), torch.ones(2, 8))
    operators, reasons = fallback(named(exporter.get_finished_spans(), "torch_tensorrt.compile"))
    assert reasons[0] == "complex_dtype"
    assert operators["torch.ops.aten._fft_r2c.default"] == (1, "complex_dtype")
    # 2.14 rewrites what follows in real numbers.
    rewritten = {"torch.ops.aten.hypot.default": (1, "no_converter")} if version >= (2, 14) else {}
    assert {name: row for name, row in operators.items() if row[1] != "complex_dtype"} == rewritten


class DataDependent(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x), torch.nonzero(x)


def test_operators_whose_output_shape_depends_on_data(instrument, exporter, version):
    if version < (2, 13):
        with pytest.raises(TypeError, match="fallback_data_dependent_ops"):
            torch_tensorrt.dynamo._settings.CompilationSettings(fallback_data_dependent_ops=True)
        return
    instrument()
    compiled(DataDependent().eval(), torch.ones(2, 8), fallback_data_dependent_ops=True)
    operators, reasons = fallback(named(exporter.get_finished_spans(), "torch_tensorrt.compile"))
    assert (operators, reasons) == (
        {"torch.ops.aten.nonzero.default": (1, "data_dependent")},
        ("data_dependent",),
    )


def test_a_graph_smaller_than_min_block_size_is_skipped_whole(instrument, exporter):
    instrument()
    compiled(models.seeded(models.Mlp), torch.ones(2, 16), min_block_size=4)
    (compilation,) = [span for span in exporter.get_finished_spans() if span.name == "torch_tensorrt.compile"]
    operators, reasons = fallback(compilation)
    assert operators == {
        "torch.ops.aten.linear.default": (2, "min_block_size"),
        "torch.ops.aten.relu.default": (1, "min_block_size"),
    }
    assert reasons == ("min_block_size",)
    assert compilation.attributes["torch_tensorrt.engines.count"] == 0
    assert compilation.attributes["torch_tensorrt.coverage"] == 0.0
    assert "torch_tensorrt.partition" not in {span.name for span in exporter.get_finished_spans()}


class Unsupported(torch.nn.Module):
    def forward(self, x):
        return torch.special.i1e(x)


def test_a_graph_without_a_supported_operator_is_skipped_whole(instrument, exporter):
    instrument()
    compiled(Unsupported().eval(), torch.ones(2, 8))
    compilation = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
    operators, reasons = fallback(compilation)
    assert operators == {SPECIAL: (1, "no_converter")}
    assert reasons == ("no_supported_operators", "no_converter")
    assert totals(compilation) == {"no_converter": (1, 0), "no_supported_operators": (0, 1)}


def test_a_graph_that_torch_compile_skips_is_a_policy_and_no_error(instrument, exporter):
    instrument()
    torch.compile(models.seeded(models.Mlp), backend="tensorrt", options={"min_block_size": 50})(torch.ones(2, 16))
    compilation = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
    assert compilation.attributes["torch_tensorrt.fallback.reason_classes"] == ("min_block_size",)
    assert compilation.status.is_unset
    assert "error.type" not in compilation.attributes


class ManyKinds(torch.nn.Module):
    NAMES = ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "entr", "erfcx", "i0e", "i1", "i1e",
             "log_ndtr", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1",
             "ndtri", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0", "digamma",
             "gammaln", "psi", "i0")  # fmt: skip

    def forward(self, x):
        return torch.relu(sum(getattr(torch.special, name)(x) for name in self.NAMES))


def test_lists_are_cut_at_twenty_and_say_how_much_was_left_out(instrument, exporter):
    instrument()
    compiled(ManyKinds().eval(), torch.ones(2, 8))
    attributes = named(exporter.get_finished_spans(), "torch_tensorrt.compile").attributes
    assert len(attributes["torch_tensorrt.fallback.operators.names"]) == 20
    kinds = 20 + attributes["torch_tensorrt.fallback.operators.omitted"]
    left = attributes["torch_tensorrt.operators.total"] - attributes["torch_tensorrt.operators.tensorrt"]
    assert 20 < kinds <= left


def test_of_what_is_in_the_way_of_a_full_compilation_twenty_kinds_are_named(instrument, exporter):
    instrument()
    with pytest.raises(AssertionError, match="not fully supported"):
        compiled(ManyKinds().eval(), torch.ones(2, 8), require_full_compilation=True)
    for name in ("torch_tensorrt.partition", "torch_tensorrt.compile"):
        attributes = named(exporter.get_finished_spans(), name).attributes
        assert len(attributes["torch_tensorrt.unsupported.operators.names"]) == 20
        assert attributes["torch_tensorrt.unsupported.operators.omitted"] > 0


def test_a_dry_run_plans_and_builds_nothing(instrument, exporter, capsys):
    instrument()
    compiled(models.seeded(models.Fallback), models.image(), dryrun=True)
    spans = exporter.get_finished_spans()
    attributes = named(spans, "torch_tensorrt.compile").attributes
    assert attributes["torch_tensorrt.engines.count"] == 2
    assert attributes["torch_tensorrt.engines.size"] == 0
    assert attributes["torch_tensorrt.settings.dryrun"] is True
    assert attributes["torch_tensorrt.operators.planned"] == 4
    assert not {"torch_tensorrt.operators.tensorrt", "torch_tensorrt.coverage"} & attributes.keys(), (
        "nothing runs there"
    )
    assert attributes["torch_tensorrt.fallback.reason_classes"] == ("no_converter",)
    assert "tensorrt.build_engine" not in {span.name for span in spans}


def test_resource_partitioning_is_a_partition_of_its_own(instrument, exporter):
    instrument()
    compiled(models.seeded(models.ConvNet), models.image(), enable_resource_partitioning=True)
    partitions = [span for span in exporter.get_finished_spans() if span.name == "torch_tensorrt.partition"]
    assert [span.attributes["torch_tensorrt.partitioner"] for span in partitions] == ["fast", "resource"]
    assert partitions[1].attributes["torch_tensorrt.subgraphs.tensorrt"] == 1


class Attention(torch.nn.Module):
    """Attention with a causal mask, and with a mask and a scale."""

    def forward(self, x, mask):
        heads = x.view(2, 8, 4, 8).transpose(1, 2)
        causal = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        return torch.nn.functional.scaled_dot_product_attention(causal, heads, heads, attn_mask=mask, scale=0.3)


ATTENTION_OF_THE_CPU = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
ROUTES = {
    "torch.compile": lambda model, inputs: torch.compile(
        model, backend="tensorrt", options={"min_block_size": 1, "pass_through_build_failures": True}
    ),
    "torch_tensorrt.compile": lambda model, inputs: torch_tensorrt.compile(
        model, ir="dynamo", arg_inputs=inputs, min_block_size=1
    ),
    "export": lambda model, inputs: torch_tensorrt.dynamo.compile(
        torch.export.export(model, tuple(inputs)), arg_inputs=inputs, min_block_size=1
    ),
}


@pytest.mark.stand_in_only("the operator is the variant for the CPU")
@pytest.mark.parametrize("route", ROUTES)
@torch.no_grad()
def test_a_model_with_attention_runs_in_tensorrt_as_a_whole_without_a_gpu(instrument, exporter, route):
    torch._dynamo.reset()
    instrument()
    model, inputs = Attention().eval(), [torch.randn(2, 8, 32), torch.randn(8, 8)]
    torch.testing.assert_close(ROUTES[route](model, inputs)(*inputs), model(*inputs))
    attributes = named(exporter.get_finished_spans(), "torch_tensorrt.compile").attributes
    assert attributes["torch_tensorrt.coverage"] == 1.0
    decomposed = ("torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default",)
    key = "torch_tensorrt.stand_in.decomposed_operators"
    # 2.11 keeps a whole attention operator on no route: its decompositions have PyTorch's own (get_decompositions).
    is_traced_to_the_device = VERSION < (2, 12) or route == "torch.compile"
    assert attributes.get(key) == (decomposed if is_traced_to_the_device else None)


@pytest.mark.stand_in_only("the operator is the variant for the CPU")
@pytest.mark.parametrize("fast", [True, False], ids=["fast", "global"])
@torch.no_grad()
def test_an_attention_operator_without_a_converter_is_named(instrument, exporter, monkeypatch, fast):
    """PyTorch takes attention for impure, since it may drop out. Torch-TensorRT's own lists omit impure operators."""
    torch._dynamo.reset()
    monkeypatch.delitem(_decompositions.TORCH_TRT_DECOMPOSITIONS, ATTENTION_OF_THE_CPU)
    instrument()
    inputs = [torch.randn(2, 8, 32), torch.randn(8, 8)]
    options = {"min_block_size": 1, "use_fast_partitioner": fast}
    torch.compile(Attention().eval(), backend="tensorrt", options=options)(*inputs)
    spans = exporter.get_finished_spans()
    for span in (named(spans, "torch_tensorrt.compile"), named(spans, "torch_tensorrt.partition")):
        name = "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default"
        assert fallback(span)[0] == {name: (2, "no_converter"), "_operator.getitem": (2, "validator_refused")}
        assert span.attributes["torch_tensorrt.fallback.stand_in_operators"] == (name,)
        assert {reason: count for reason, (count, _) in totals(span).items()} == {
            "no_converter": 2,
            "validator_refused": 2,
        }
    compilation = named(spans, "torch_tensorrt.compile").attributes
    assert compilation["torch_tensorrt.operators.total"] - compilation["torch_tensorrt.operators.tensorrt"] == 4


# --- a graph that is taken whole, as later versions of Torch-TensorRT take one that is supported throughout --------


class Supported(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 8), torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x))), x * 2


COUNTS = (
    *(f"torch_tensorrt.operators.{each}" for each in ("total", "supported", "planned", "tensorrt")),
    "torch_tensorrt.coverage",
)


def without_asking(module, _support, _allow_non_tensor):
    """What finds the nodes for TensorRT: all, and no operator is looked at."""
    return lambda: {node for node in module.graph.nodes if node.op.startswith("call")}


def without_partition(graph, **_settings):
    support = adjacency.OpSupportTester()
    return adjacency.TRTPartitioner(graph, support, min_block_size=1).partition_graph(), support


@pytest.mark.parametrize("skips_partition", [False, True], ids=["no verdicts", "no partition"])
@pytest.mark.parametrize("dryrun", [False, True], ids=["compiled", "dry run"])
def test_a_graph_of_whose_operators_none_is_asked_about_is_counted_whole(
    instrument, exporter, monkeypatch, skips_partition, dryrun
):
    monkeypatch.setattr(adjacency, "FxNetAccNodesFinder", without_asking)
    if skips_partition:
        monkeypatch.setattr(torch_tensorrt.dynamo.partitioning, "fast_partition", without_partition)
    instrument()
    compiled(models.seeded(Supported), torch.ones(2, 16), dryrun=dryrun)
    spans = exporter.get_finished_spans()
    attributes = named(spans, "torch_tensorrt.compile").attributes
    found = {key: attributes[key] for key in COUNTS if key in attributes}
    done = {} if dryrun else {"torch_tensorrt.operators.tensorrt": 4, "torch_tensorrt.coverage": 1.0}
    assert found == {"torch_tensorrt.operators.total": 4, "torch_tensorrt.operators.supported": 4, **done}
    partitions = [span for span in spans if span.name == "torch_tensorrt.partition"]
    assert len(partitions) == (0 if skips_partition else 1)
    assert not any(key in partition.attributes for partition in partitions for key in COUNTS)
