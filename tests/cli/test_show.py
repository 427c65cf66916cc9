# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001
# The multiplication sign is part of the expected output.

import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry import trace

from torchspan import cli
from torchspan.words import semconv as s
from torchspan.words.semconv import FallbackReason

FALLBACK = {
    s.FALLBACK_REASON_CLASSES: [FallbackReason.NO_CONVERTER, FallbackReason.MIN_BLOCK_SIZE],
    s.FALLBACK_OPERATOR_NAMES: ["torch.ops.aten.special_i1e.default", "torch.ops.aten.mul.Tensor"],
    s.FALLBACK_OPERATOR_COUNTS: [1, 2],
    s.FALLBACK_OPERATOR_REASONS: [FallbackReason.NO_CONVERTER, FallbackReason.MIN_BLOCK_SIZE],
}


@pytest.fixture
def compilation(recording):
    """A compilation as torchspan records it: a fallback, two engines, steps, a stand-in for the GPU."""
    main = recording.span("main", 0, 2000, scope="app")
    settings = {"min_block_size": 5, "cache_built_engines": False, "reuse_cached_engines": False}
    compiled = recording.span(
        "torch_tensorrt.compile",
        100,
        1900,
        {
            s.MODEL_CLASS: "ConvNet",
            s.OPERATORS_TOTAL: 61,
            s.OPERATORS_TENSORRT: 58,
            s.ENGINE_COUNT: 2,
            s.ENGINES_SIZE: 18_510_172,
            **FALLBACK,
            **{s.SETTINGS[name]: value for name, value in settings.items()},
        },
        parent=main,
    )
    traced = recording.span(
        "torch_tensorrt.trace", 100, 500, {s.MODEL_CLASS: "ConvNet", s.NODES_COUNT: 123}, parent=compiled
    )
    recording.span("torch.export", 110, 480, {s.MODEL_CLASS: "ConvNet", s.NODES_COUNT: 123}, parent=traced)
    recording.span("torch_tensorrt.lower", 500, 600, {s.NODES_BEFORE: 123, s.NODES_AFTER: 98}, parent=compiled)
    partition = {s.OPERATORS_TOTAL: 61, s.OPERATORS_PLANNED: 58, s.SUBGRAPHS_TENSORRT: 2, s.SUBGRAPHS_TORCH: 1}
    recording.span("torch_tensorrt.partition", 600, 620, {**partition, **FALLBACK}, parent=compiled)
    for number in range(2):
        start = 620 + 600 * number
        engine = {s.ENGINE_NAME: f"_run_on_acc_{2 * number}"}
        size = {s.ENGINE_SIZE: 9_255_086}
        steps = {s.STEP_NAMES: ["deallocate_module"], s.STEP_COUNTS: [1], s.STEP_DURATIONS: [0.15]}
        operators = {s.ENGINE_OPERATORS: 29}
        convert = recording.span(
            "torch_tensorrt.convert", start, start + 600, {**engine, **operators, **size, **steps}, parent=compiled
        )
        layers = {s.NETWORK_LAYERS: 80}
        recording.span("torch_tensorrt.construct_network", start, start + 20, layers, parent=convert)
        recording.span("tensorrt.build_engine", start + 20, start + 400, {**layers, **size}, parent=convert)
        stand_in = {**engine, s.STAND_IN: True}
        recording.span("torch_tensorrt.setup_engine", start + 400, start + 405, stand_in, parent=convert)
    return recording


AT_80_COLUMNS = """\
   what was compiled times      time
1  ConvNet              ×1    1.79 s  58 of 61 ops in TensorRT
   in PyTorch: aten.mul.Tensor ×2: group smaller than min_block_size=5;
   min_block_size=1 takes it into TensorRT
   in PyTorch: aten.special_i1e ×1: no converter
   engine cache: off; immutable_weights=False, cache_built_engines=True,
   reuse_cached_engines=True turn it on
   slowest of 2 engines: _run_on_acc_0: 600 ms, 9.26 MB
   time: build_engine 760 ms, export 370 ms, deallocate_module 300 ms

trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 14 spans
main                                                  ████████████████    2.00 s
└─ torch_tensorrt.compile · ConvNet                   ██████████████      1.80 s
   │  58 of 61 ops in TensorRT · 2 engines, 18.5 MB together
   │  fallback: no_converter, min_block_size
   ├─ torch_tensorrt.trace  123 nodes                 ███                 400 ms
   │  └─ torch.export                                 ███                 370 ms
   ├─ torch_tensorrt.lower  123 → 98 nodes                █               100 ms
   ├─ torch_tensorrt.partition                            ▏              20.0 ms
   │     subgraphs: 2 TensorRT, 1 PyTorch
   │     in PyTorch: aten.special_i1e ×1, aten.mul.Tensor ×2
   ├─ torch_tensorrt.convert · _run_on_acc_0              █████           600 ms
   │  │  29 ops · 9.26 MB · deallocate_module 150 ms
   │  ├─ torch_tensorrt.construct_network  80 layers      ▏              20.0 ms
   │  ├─ tensorrt.build_engine  80 layers                  ███            380 ms
   │  └─ torch_tensorrt.setup_engine                          ▏         stand-in
   └─ torch_tensorrt.convert · _run_on_acc_2                   █████      600 ms
      │  29 ops · 9.26 MB · deallocate_module 150 ms
      ├─ torch_tensorrt.construct_network  80 layers           ▏         20.0 ms
      ├─ tensorrt.build_engine  80 layers                      ███        380 ms
      └─ torch_tensorrt.setup_engine                              ▏     stand-in
Own time  build_engine 760 ms 38 %, export 370 ms 19 %,
          deallocate_module 300 ms 15 %
          stand-in left out
"""


def test_a_compilation_at_80_columns(compilation, torchspan):
    status, out, err = torchspan("show", compilation.path)

    assert (status, err) == (0, "")
    assert out == AT_80_COLUMNS
    assert max(map(len, out.splitlines())) == 80


def test_a_dry_run_says_what_was_planned_and_no_size(recording, shown):
    counts = {s.OPERATORS_TOTAL: 5, s.OPERATORS_PLANNED: 3, s.ENGINE_COUNT: 2, s.ENGINES_SIZE: 0}
    recording.span("torch_tensorrt.compile", 0, 100, {**counts, s.SETTINGS["dryrun"]: True})
    out = shown(recording.path).waterfalls
    assert "3 of 5 ops planned for TensorRT · 2 engines planned\n" in out


def test_a_compilation_at_120_columns(compilation, torchspan, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")

    assert (
        torchspan("show", compilation.path)[1]
        == """\
   what was compiled times      time
1  ConvNet              ×1    1.79 s  58 of 61 ops in TensorRT
   in PyTorch: aten.mul.Tensor ×2: group smaller than min_block_size=5; min_block_size=1 takes it into TensorRT
   in PyTorch: aten.special_i1e ×1: no converter
   engine cache: off; immutable_weights=False, cache_built_engines=True, reuse_cached_engines=True turn it on
   slowest of 2 engines: _run_on_acc_0: 600 ms, 9.26 MB
   time: build_engine 760 ms, export 370 ms, deallocate_module 300 ms

trace abc00000000000000000000000000001 · app.py · 2026-11-21 10:42:40Z · 14 spans
main                                                                                  ████████████████████████    2.00 s
└─ torch_tensorrt.compile · ConvNet                                                    ██████████████████████     1.80 s
   │  58 of 61 ops in TensorRT · 2 engines, 18.5 MB together · fallback: no_converter, min_block_size
   ├─ torch_tensorrt.trace  123 nodes                                                  █████                      400 ms
   │  └─ torch.export                                                                  ████                       370 ms
   ├─ torch_tensorrt.lower  123 → 98 nodes                                                  █                     100 ms
   ├─ torch_tensorrt.partition                                                               ▏                   20.0 ms
   │     subgraphs: 2 TensorRT, 1 PyTorch · in PyTorch: aten.special_i1e ×1, aten.mul.Tensor ×2
   ├─ torch_tensorrt.convert · _run_on_acc_0                                                 ███████              600 ms
   │  │  29 ops · 9.26 MB · deallocate_module 150 ms
   │  ├─ torch_tensorrt.construct_network  80 layers                                         ▏                   20.0 ms
   │  ├─ tensorrt.build_engine  80 layers                                                    █████                380 ms
   │  └─ torch_tensorrt.setup_engine                                                              ▏             stand-in
   └─ torch_tensorrt.convert · _run_on_acc_2                                                        ███████       600 ms
      │  29 ops · 9.26 MB · deallocate_module 150 ms
      ├─ torch_tensorrt.construct_network  80 layers                                                ▏            20.0 ms
      ├─ tensorrt.build_engine  80 layers                                                           █████         380 ms
      └─ torch_tensorrt.setup_engine                                                                     ▏      stand-in
Own time  build_engine 760 ms 38 %, export 370 ms 19 %, deallocate_module 300 ms 15 %
          stand-in left out
"""
    )


def test_a_pipe_gets_the_same_80_columns_without_color(compilation, shell):
    result = shell("show", compilation.path)

    assert (result.returncode, result.stdout, result.stderr) == (0, AT_80_COLUMNS, "")


def test_a_terminal_that_knows_no_unicode_gets_ascii(compilation, shell):
    result = shell("show", compilation.path, env={**os.environ, "PYTHONIOENCODING": "ascii"})

    assert (
        result.stdout.splitlines()[:18]
        == """\
   what was compiled times      time
1  ConvNet              x1    1.79 s  58 of 61 ops in TensorRT
   in PyTorch: aten.mul.Tensor x2: group smaller than min_block_size=5;
   min_block_size=1 takes it into TensorRT
   in PyTorch: aten.special_i1e x1: no converter
   engine cache: off; immutable_weights=False, cache_built_engines=True,
   reuse_cached_engines=True turn it on
   slowest of 2 engines: _run_on_acc_0: 600 ms, 9.26 MB
   time: build_engine 760 ms, export 370 ms, deallocate_module 300 ms

trace abc00000000000000000000000000001 - 2026-11-21 10:42:40Z - 14 spans
main                                                  ################    2.00 s
`- torch_tensorrt.compile - ConvNet                   ##############      1.80 s
   |  58 of 61 ops in TensorRT - 2 engines, 18.5 MB together
   |  fallback: no_converter, min_block_size
   |- torch_tensorrt.trace  123 nodes                 ###                 400 ms
   |  `- torch.export                                 ###                 370 ms
   |- torch_tensorrt.lower  123 > 98 nodes                #               100 ms
""".splitlines()
    )


def on_a_terminal(path, monkeypatch, **environ):
    """What `torchspan show` writes to a terminal of 80 columns."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert cli.main(["show", path]) == 0
    text = b""
    try:
        while chunk := os.read(reader, 65536):
            text += chunk
    except OSError:  # Linux reports it when the other end is closed
        pass
    os.close(reader)
    return text.decode().replace("\r\n", "\n")


def test_a_terminal_gets_color_and_no_color_takes_it_away(recording, monkeypatch):
    recording.span("work", 0, 100)

    assert on_a_terminal(recording.path, monkeypatch) == (
        "\x1b[2m   what was recorded times      time\x1b[0m\n"
        "\x1b[2m1  \x1b[0m\x1b[1mwork             \x1b[0m    ×1    100 ms\n\n"
        "\x1b[1mtrace abc00000000000000000000000000001\x1b[0m\x1b[2m · 2026-11-21 10:42:40Z · 1 span\x1b[0m\n"
        "\x1b[1mwork\x1b[0m                                                  \x1b[36m████████████████\x1b[0m    100 ms\n"
    )
    assert on_a_terminal(recording.path, monkeypatch, NO_COLOR="1") == (
        "   what was recorded times      time\n1  work                 ×1    100 ms\n\n"
        "trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 1 span\n"
        "work                                                  ████████████████    100 ms\n"
    )


def test_without_rich_the_waterfall_is_the_same_without_color(recording, monkeypatch):
    recording.span("work", 0, 100)
    monkeypatch.setitem(sys.modules, "rich.console", None)

    assert "\x1b" not in on_a_terminal(recording.path, monkeypatch)


def test_names_that_look_like_markup_are_names(recording, monkeypatch):
    recording.span("[CONV]-[/x] [red]", 0, 1, {s.ENGINE_NAME: "[bold]:smile:[/]"})

    assert "[CONV]-[/x] [red]\x1b[0m · [bold]:smile:[/]" in on_a_terminal(recording.path, monkeypatch)


def test_escape_sequences_and_line_breaks_are_written_out(recording, shown, findings):
    evil = "\x1b]0;title\x07 a\nb \u202e \x9b31m"
    recording.span(
        "x\x1b[2J", 0, 1, {s.ENGINE_NAME: evil, s.FALLBACK_REASON_CLASSES: ["\x1b[31m"]}, error=("E\r", "\x1b[0m")
    )

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 1 span
x\\x1b[2J · \\x1b]0;title\\x07 a\\nb \\u202e \\x9b31m       ████████████████   1.00 ms
   fallback: \\x1b[31m · E\\r: \\x1b[0m
"""
    )
    assert findings(recording.path) == ["E\\r in x\\x1b[2J: \\x1b[0m", "in PyTorch: \\x1b[31m"]


def test_wide_characters_keep_the_columns(recording, shown):
    recording.span("推論", 0, 10, {s.MODEL_CLASS: "模型"})

    assert shown(recording.path).waterfalls.splitlines()[1] == (
        "推論 · 模型                                           ████████████████   10.0 ms"
    )


def test_a_long_name_is_shortened_and_no_number_is(recording, shown):
    root = recording.span("torch_tensorrt.compile", 0, 1000, {s.MODEL_CLASS: "M" * 70, s.ENGINE_COUNT: 3})
    recording.span("n" * 90, 0, 999, {s.ENGINE_SIZE: 123_456_789, s.NETWORK_LAYERS: 4321}, parent=root)

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 2 spans
torch_tensorrt.compile                                ████████████████    1.00 s
│  MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM
│  3 engines
└─ nnnnnnnnnnnnnnnnnnnnnnnnn…nnnnnnnnnnnnnnnnnnnnnnnn ████████████████    999 ms
      4321 layers · 123 MB
Own time  nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn
          nnnnnnnnnnnnnnnnnnnn 999 ms 100 %, compile 1.00 ms <1 %
"""
    )


def test_an_observed_function_is_called_by_its_own_name_under_the_waterfall(recording, shown):
    root = recording.span("torchspan.observed prepare", 0, 100)
    recording.span("torch_tensorrt.compile", 0, 40, parent=root)
    assert shown(recording.path).waterfalls.splitlines()[1:] == [
        "torchspan.observed prepare                            ████████████████    100 ms",
        "└─ torch_tensorrt.compile                             ██████             40.0 ms",
        "Own time  prepare 60.0 ms 60 %, compile 40.0 ms 40 %",
    ]


def test_an_error_is_named_on_each_span_and_reported_where_it_was_raised(recording, shown, findings):
    message = "Conversion of function ? not supported: " + "a long explanation of what to do about it, " * 3
    root = recording.span("torch_tensorrt.compile", 0, 100, error=("RuntimeError", None))
    recording.span("torch_tensorrt.convert", 0, 90, parent=root, error=("RuntimeError", message))

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 2 spans
torch_tensorrt.compile  RuntimeError                  ████████████████    100 ms
└─ torch_tensorrt.convert                             ██████████████     90.0 ms
      RuntimeError: Conversion of function ? not supported: a long explanation
      of what to do about it, a long explanation of what to do about it, a long
      explanation of what to do about it,
Own time  convert 90.0 ms 90 %, compile 10.0 ms 10 %
"""
    )
    assert findings(recording.path) == [
        "RuntimeError in convert: Conversion of function ? not supported: a long",
        "explanation of what to do about it, a long explanation of what to do about",
        "it, a long explanation of what to do about it,",
    ]


CONVERTERS = "torch_tensorrt.dynamo.conversion.aten_ops_converters."
NODE = {
    s.FAILED_OPERATOR: "torch.ops.aten.nonzero.default",
    s.FAILED_NODE_NAME: "nonzero",
    s.FAILED_NODE_POSITION: 4,
    s.FAILED_NODES: 9,
    s.FAILED_CONVERTER: CONVERTERS + "aten_ops_nonzero",
    s.CODE_FILE: "/app/serving/model.py",
    s.CODE_LINE: 12,
    s.CODE_FUNCTION: "forward",
}
"""What a conversion that failed says about its cause."""


def failed_conversion(recording, work="torch_tensorrt.compile", around=None, node=NODE, message="Not available here"):
    root = recording.span(work, 0, 100, around, error=("NotImplementedError", None))
    error = ("NotImplementedError", message)
    recording.span("torch_tensorrt.construct_network", 0, 90, node, parent=root, error=error)


def test_the_answer_about_a_failed_conversion_breaks_between_words_and_names(recording, findings):
    failed_conversion(
        recording, message="This is only available in other environments, for a long reason that is given"
    )
    assert findings(recording.path) == [
        "NotImplementedError in construct_network: This is only available in other",
        "environments, for a long reason that is given",
        "aten.nonzero (%nonzero, node 4 of 9) at /app/serving/model.py:12 in forward",
        "converter aten_ops_converters.aten_ops_nonzero",
        'pass torch_executed_ops={"torch.ops.aten.nonzero.default"} to run it in',
        "PyTorch",
    ]


def test_a_terminal_of_40_columns_gets_whole_names_where_they_fit(recording, findings, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    failed_conversion(recording)
    assert findings(recording.path) == [
        "failed",
        "NotImplementedError in",
        "construct_network: Not available here",
        "aten.nonzero (%nonzero, node 4 of 9)",
        "at /app/serving/model.py:12 in",
        "forward",
        "converter",
        "aten_ops_converters.aten_ops_nonzero",
        "pass",
        'torch_executed_ops={"torch.ops.aten.nonzero.default"}',
        "to run it in PyTorch",
    ], "what is to be pasted is left to the terminal to wrap"


def test_what_is_to_be_pasted_keeps_the_operators_that_were_excluded_before(recording, findings):
    excluded = {s.SETTINGS["torch_executed_ops"]: ["torch.ops.aten.relu.default"]}
    failed_conversion(recording, around={**excluded, s.SETTINGS["require_full_compilation"]: True})
    assert findings(recording.path)[-3:] == [
        'pass torch_executed_ops={"torch.ops.aten.relu.default",',
        '"torch.ops.aten.nonzero.default"} and require_full_compilation=False to run',
        "it in PyTorch",
    ]


def test_for_torch_compile_it_is_an_option(recording, findings):
    failed_conversion(recording, around={s.ENTRY_POINT: "torch.compile"})
    assert findings(recording.path)[-2:] == [
        'add "torch_executed_ops": {"torch.ops.aten.nonzero.default"} to options to',
        "run it in PyTorch",
    ]


def test_an_engine_of_a_whole_model_has_nowhere_else_to_run_an_operator(recording, findings):
    failed_conversion(recording, "torch_tensorrt.convert_to_engine")
    assert "torch_executed_ops" not in " ".join(findings(recording.path))


def test_a_node_without_an_operator_is_called_by_its_kind(recording, findings):
    failed_conversion(recording, node={s.FAILED_OPERATOR: "placeholder", s.FAILED_NODE_POSITION: 1, s.FAILED_NODES: 9})
    assert findings(recording.path) == [
        "NotImplementedError in construct_network: Not available here",
        "placeholder (node 1 of 9)",
    ]


def test_a_file_below_the_current_folder_is_named_from_there_on(recording, findings, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    failed_conversion(recording, node={**NODE, s.CODE_FILE: str(tmp_path / "models" / "net.py")})
    assert " at models/net.py:12 in forward" in " ".join(findings(recording.path))


def test_operators_that_are_in_the_way_of_a_full_compilation_are_named_and_counted(recording, findings):
    blocking = {
        s.UNSUPPORTED_NAMES: ["torch.ops.aten.special_i1e.default", "torch.ops.aten._fft_r2c.default"],
        s.UNSUPPORTED_COUNTS: [2, 1],
        s.UNSUPPORTED_REASONS: [FallbackReason.NO_CONVERTER, FallbackReason.COMPLEX_DTYPE],
        s.UNSUPPORTED_OMITTED: 7,
    }
    message = "require_full_compilation=True was specified, but model is not fully supported"
    recording.span("torch_tensorrt.partition", 0, 100, blocking, error=("AssertionError", message))
    assert findings(recording.path) == [
        "AssertionError in partition: require_full_compilation=True was specified, but",
        "model is not fully supported",
        "not for TensorRT: aten.special_i1e ×2 (no converter),",
        "aten._fft_r2c ×1 (complex numbers), 7 more kinds",
        "pass require_full_compilation=False to run them in PyTorch",
    ]


def test_an_export_that_failed_names_the_dimensions_and_the_place(recording, findings):
    found = {s.VIOLATED_CONSTRAINTS: ["inputs[0].shape[0]: specialized to a constant"]}
    recording.span("torch.export", 0, 100, found, error=("torch._dynamo.exc.UserError", "Constraints violated (?)!"))
    assert findings(recording.path) == [
        "torch._dynamo.exc.UserError in export: Constraints violated (?)!",
        "inputs[0].shape[0]: specialized to a constant",
    ]


def test_an_export_that_failed_says_why_in_one_sentence(recording, findings):
    reason = "a condition depends on the result of torch.ops.aten.item.default, at net.py:12 in forward"
    export = recording.span(
        "torch.export", 0, 100, {s.EXPORT_FAILED_REASON: reason, **NODE}, error=("torch.fx.Unclear", None)
    )
    recording.span("torch.export.trace", 0, 90, parent=export, error=("torch.fx.Unclear", "Eq(?)"))
    assert findings(recording.path) == [
        "torch.fx.Unclear in export: a condition depends on the result of",
        "torch.ops.aten.item.default, at net.py:12 in forward",
    ]


def test_an_export_that_violates_several_constraints_names_each(recording, findings):
    violated = ["inputs[0].shape[0]: specialized to a constant", "inputs[0].shape[1]: specialized to a constant"]
    facts = {
        s.EXPORT_FAILED_REASON: f"constraint violated: {violated[0]} and others",
        s.VIOLATED_CONSTRAINTS: violated,
    }
    recording.span("torch.export", 0, 100, facts, error=("UserError", "Constraints violated (?)!"))
    assert findings(recording.path) == [
        "UserError in export: constraint violated: inputs[0].shape[0]: specialized to",
        "a constant and others",
        "inputs[0].shape[0]: specialized to a constant,",
        "inputs[0].shape[1]: specialized to a constant",
    ]


def test_an_exception_of_the_models_in_an_export_keeps_its_message(recording, findings):
    facts = {s.EXPORT_FAILED_REASON: "ValueError was raised, at net.py:12 in forward"}
    recording.span("torch.export", 0, 100, facts, error=("ValueError", "no luck"))
    assert findings(recording.path) == ["ValueError in export: no luck"]


def test_an_exception_whose_message_is_not_recorded_says_where_it_was_raised(recording, findings):
    span = recording._provider.get_tracer(s.SCOPE_NAME).start_span("torch_tensorrt.construct_network")
    place = {s.CODE_FILE: "/app/converters.py", s.CODE_LINE: 21, s.CODE_FUNCTION: "app.converters.convert_erfcx"}
    span.add_event("exception", {s.EXCEPTION_TYPE: "ValueError", **place})
    span.set_attribute(s.ERROR_TYPE, "ValueError")
    span.end()
    assert findings(recording.path) == [
        "ValueError in construct_network",
        "raised at /app/converters.py:21 in app.converters.convert_erfcx",
        "its message is not in the table of messages; --text shows it if the file has",
        "it",
    ]


def test_a_build_that_failed_without_a_reason_says_where_the_reason_is(recording, findings):
    logger = {s.BUILD_LOGGER: "tensorrt_rtx.Logger"}
    recording.span("tensorrt.build_engine", 0, 100, logger, error=("engine_build_failed", None))
    assert findings(recording.path) == [
        "engine_build_failed in build_engine",
        "TensorRT's own log has the reason: what tensorrt_rtx.Logger printed; a",
        "subclass of ILogger in Python would be recorded",
    ]


def test_a_conversion_to_an_engine_concerns_its_model_and_not_the_cache(recording, shown, findings):
    attributes = {s.MODEL_CLASS: "Net", s.CACHE_RESULT: "disabled", s.CACHE_REASON: "not_requested"}
    recording.span("torch_tensorrt.convert_to_engine", 0, 100, attributes)
    assert "\ntorch_tensorrt.convert_to_engine · Net " in shown(recording.path).waterfalls
    assert findings(recording.path) == [
        "engine cache: off; immutable_weights=False, cache_built_engines=True,",
        "reuse_cached_engines=True turn it on",
    ]


def test_the_global_partitioner_leaves_operators_inline_and_has_no_pieces_for_pytorch(recording, shown):
    split = {s.PARTITIONER: "global", s.SUBGRAPHS_TENSORRT: 2, s.SUBGRAPHS_TORCH: 0, **FALLBACK}
    recording.span("torch_tensorrt.partition", 0, 100, split)
    assert "  subgraphs: 2 TensorRT · in PyTorch: aten.special_i1e" in shown(recording.path).waterfalls


def test_what_a_failed_compilation_planned_is_called_planned_and_said_once(recording, shown, findings):
    planned = {s.OPERATORS_TOTAL: 89, s.OPERATORS_PLANNED: 89}
    root = recording.span("torch_tensorrt.compile", 0, 100, planned, error=("RuntimeError", None))
    found = {**planned, s.SUBGRAPHS_TENSORRT: 1, s.SUBGRAPHS_TORCH: 0}
    recording.span("torch_tensorrt.partition", 0, 10, found, parent=root)

    assert (
        shown(recording.path).waterfalls.partition("\n")[2]
        == """\
torch_tensorrt.compile                                ████████████████    100 ms
│  89 of 89 ops planned for TensorRT · RuntimeError
└─ torch_tensorrt.partition                           ██                 10.0 ms
      subgraphs: 1 TensorRT, 0 PyTorch
Own time  compile 90.0 ms 90 %, partition 10.0 ms 10 %
"""
    )
    assert findings(recording.path) == ["RuntimeError in compile"]


def test_a_failed_build_tells_tensorrts_last_error_and_that_memory_was_short(recording, shown):
    recording.span(
        "tensorrt.build_engine",
        0,
        100,
        {s.NETWORK_LAYERS: 5, s.OUT_OF_MEMORY: True, s.TACTICS_SKIPPED: 30},
        error=("engine_build_failed", None),
        description="Could not find any implementation for node ?",
    )
    out = shown(recording.path).waterfalls
    assert "short of memory: 30 tactics skipped" in out
    assert "engine_build_failed: Could not find any implementation for node ?" in " ".join(out.split())


def test_a_build_that_skipped_nothing_is_short_of_memory_without_a_number(recording, shown):
    recording.span("tensorrt.build_engine", 0, 100, {s.OUT_OF_MEMORY: True})
    out = shown(recording.path).waterfalls
    assert "  short of memory  " in out


def test_what_a_trace_dropped_is_counted(recording, shown):
    folded = {
        s.FOLDED: 12,
        s.STEP_NAMES: ["tensorrt.build_phase Timing tactics"],
        s.STEP_COUNTS: [12],
        s.STEP_DURATIONS: [1.5],
    }
    recording.span("tensorrt.build_engine", 0, 2000, folded)

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 1 span
tensorrt.build_engine                                 ████████████████    2.00 s
   + 12 spans dropped (trace limit)
   tensorrt.build_phase Timing tactics 1.50 s (×12)
"""
    )


def test_runs_that_were_folded_by_the_rate_limit_are_counted(recording, shown):
    folded = {s.EXECUTE_FOLDED: 940, s.EXECUTE_FOLDED_SUM: 1.2, s.EXECUTE_FOLDED_MAX: 0.003}
    recording.span("handle request", 0, 2000, folded, scope="app")

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 1 span
handle request                                        ████████████████    2.00 s
   + 940 runs, 1.20 s in all, longest 3.00 ms
"""
    )


def test_calls_that_may_be_inside_each_other_have_no_sum(recording, shown):
    folded = {s.OBSERVED_FOLDED: 2991, s.OBSERVED_FOLDED_SUM: 497.0, s.OBSERVED_FOLDED_MAX: 0.36}
    recording.span("handle request", 0, 400, folded, scope="app")
    assert shown(recording.path).waterfalls.splitlines()[-1].startswith("handle request  + 2991 runs, longest 360 ms ")


def test_what_the_cache_did_is_one_line(recording, shown, findings):
    root = recording.span("torch_tensorrt.compile", 0, 100)
    for number, result in enumerate(["hit", "hit", "miss"]):
        start = 10 * number
        recording.span("torch_tensorrt.engine_cache.lookup", start, start + 5, {s.CACHE_RESULT: result}, parent=root)
    recording.span("torch_tensorrt.engine_cache.insert", 50, 60, {s.CACHE_INSERTED: "inserted"}, parent=root)

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 5 spans
torch_tensorrt.compile                                ████████████████    100 ms
├─ torch_tensorrt.engine_cache.lookup · hit           █                  5.00 ms
├─ torch_tensorrt.engine_cache.lookup · hit            █                 5.00 ms
├─ torch_tensorrt.engine_cache.lookup · miss             █               5.00 ms
└─ torch_tensorrt.engine_cache.insert · inserted              ██         10.0 ms
Own time  compile 75.0 ms 75 %, engine_cache.lookup 15.0 ms 15 %,
          engine_cache.insert 10.0 ms 10 %
"""
    )
    assert findings(recording.path) == ["engine cache: 2 hits, 1 inserted, 1 miss"]


def test_a_lookup_that_passed_over_an_entry_is_not_a_fallback_to_pytorch(recording, shown, findings):
    root = recording.span("torch_tensorrt.compile", 0, 100)
    attributes = {s.CACHE_RESULT: "rejected", s.CACHE_REASON: "outdated_entry", s.CACHE_ENTRY_SIZE: 2_000_000}
    attributes[s.FALLBACK_REASON_CLASSES] = ["cache_entry_rejected"]
    recording.span("torch_tensorrt.engine_cache.lookup", 0, 10, attributes, parent=root)

    assert findings(recording.path) == ["engine cache: 1 rejected (outdated entry)"]
    assert "entry of 2.00 MB · outdated_entry" in shown(recording.path).waterfalls


def test_many_equal_siblings_share_a_line_but_not_those_that_failed(recording, shown, findings):
    root = recording.span("torch_tensorrt.compile", 0, 300)
    for number in range(300):
        error = ("RuntimeError", "no luck") if number == 200 else None
        attributes = {s.ENGINE_NAME: f"_run_on_acc_{number}", s.ENGINE_SIZE: 1_000_000}
        convert = recording.span("torch_tensorrt.convert", number, number + 1, attributes, parent=root, error=error)
        recording.span("tensorrt.build_engine", number, number + 0.5, parent=convert)

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 601 spans
torch_tensorrt.compile                                ████████████████    300 ms
├─ torch_tensorrt.convert · _run_on_acc_0  1.00 MB    ▏                  1.00 ms
│  └─ tensorrt.build_engine                           ▏                   500 µs
├─ torch_tensorrt.convert · _run_on_acc_1  1.00 MB    ▏                  1.00 ms
│  └─ tensorrt.build_engine                           ▏                   500 µs
├─ torch_tensorrt.convert · _run_on_acc_2  1.00 MB    ▏                  1.00 ms
│  └─ tensorrt.build_engine                           ▏                   500 µs
├─ torch_tensorrt.convert ×296                        ████████████████    296 ms
│     1.00 ms each · 296 MB together · 296 spans inside
└─ torch_tensorrt.convert · _run_on_acc_200                     ▏        1.00 ms
   │  1.00 MB · RuntimeError: no luck
   └─ tensorrt.build_engine                                     ▏         500 µs
Own time  convert 150 ms 50 %, build_engine 150 ms 50 %
"""
    )
    assert findings(recording.path) == ["RuntimeError in convert: no luck"]


def test_short_passes_share_a_line(recording, shown):
    root = recording.span("torch_tensorrt.lower", 0, 1000)
    for number, ms in enumerate([400, 1, 2, 3, 100]):
        start = 150 * number
        name = f"pass_{number}"
        recording.span(f"torch_tensorrt.pass {name}", start, start + ms, {s.PASS_NAME: name}, parent=root)

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 6 spans
torch_tensorrt.lower                                  ████████████████    1.00 s
├─ torch_tensorrt.pass pass_0                         ██████              400 ms
├─ torch_tensorrt.pass ×3  1.00 ms to 3.00 ms each      █████            6.00 ms
└─ torch_tensorrt.pass pass_4                                  ██         100 ms
Own time  lower 497 ms 50 %, pass_0 400 ms 40 %, pass_4 100 ms 10 %
"""
    )


def test_spans_of_different_names_beyond_a_screenful_are_counted(recording, shown):
    root = recording.span("main", 0, 5000, scope="app")
    for number in range(5000):
        recording.span(f"step {number}", number, number + (50 if number == 77 else 1), parent=root, scope="app")
    lines = shown(recording.path).waterfalls.splitlines()

    assert len(lines) < 50
    assert any("step 77 " in line for line in lines)
    assert lines[-2] == "└─ … 4961 more spans  1.00 ms each                    ████████████████    4.96 s"


def test_a_chain_of_5000_spans_ends_at_a_readable_depth(recording, shown):
    parent = None
    for number in range(5000):
        parent = recording.span("deeper", number / 10, 1000 - number / 10, parent=parent, scope="app")
    out = shown(recording.path).waterfalls

    assert (
        out.splitlines()[20:]
        == """\
                  └ deeper                            ████████████████    996 ms
                   └ … 1 more span  4979 spans inside ████████████████    996 ms
Own time  deeper 1.00 s 100 %
""".splitlines()
    )
    assert max(map(len, out.splitlines())) == 80


def test_many_traces_of_one_name_are_one_row_and_what_was_compiled_is_drawn(recording, torchspan):
    for number in range(40):
        recording.span("handle request", 10 * number, 10 * number + 1 + number / 100, scope="app")
    recording.span("torch_tensorrt.compile", 1000, 1001, {s.KEEP: True})

    assert (
        torchspan("show", recording.path)[1]
        == """\
   what was compiled      times      time
1  torch_tensorrt.compile    ×1   1.00 ms
2  handle request           ×40   47.8 ms

trace abc00000000000000000000000000051 · 2026-11-21 10:42:41Z · 1 span
torch_tensorrt.compile                                ████████████████   1.00 ms
"""
    )


def test_traces_of_a_row_that_are_not_drawn_are_counted(recording, torchspan):
    for number in range(10):
        recording.span("handle request", 10 * number, 10 * number + 20, scope="app")
    recording.span("job 1", 1000, 1010.5, scope="app")
    recording.span("another job with a name of its own", 1000, 1010, scope="app")

    assert (
        torchspan("show", recording.path)[1]
        == """\
   what was recorded                  times      time
1  handle request                       ×10    110 ms
2  job 1                                 ×1   10.5 ms
3  another job with a name of its own    ×1   10.0 ms

trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 1 span
handle request                                        ████████████████   20.0 ms

9 more traces of part 1; show FILE 1 draws all
"""
    )


def test_one_trace_by_the_start_of_its_id(recording, torchspan):
    recording.span("first", 0, 1)
    recording.span("second", 0, 1)

    assert (
        torchspan("show", recording.path, "--trace", "ABC00000000000000000000000000003")[1]
        == """\
   what was recorded times      time
1  second               ×1   1.00 ms

trace abc00000000000000000000000000003 · 2026-11-21 10:42:40Z · 1 span
second                                                ████████████████   1.00 ms
"""
    )
    assert torchspan("show", recording.path, "--trace", "ff") == (
        2,
        "",
        (
            f"torchspan show: no trace ff in {recording.path}; "
            "its traces are abc00000000000000000000000000001, abc00000000000000000000000000003\n"
        ),
    )


def test_a_reader_that_has_seen_enough_is_not_an_error(recording):
    for number in range(3000):
        recording.span(f"span {number}", 0, number + 1)
    program = "import sys; from torchspan.cli import main; sys.exit(main())"
    pipeline = shlex.join([sys.executable, "-c", program, "show", recording.path, "--trace", "abc"])
    result = subprocess.run(f"({pipeline}) | head -1", shell=True, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


# --- long work while it runs, and after it was killed ---------------------------------------------------------


def reported(recording, number, elapsed_ms, *, parent, start_ms=0, **attributes):
    """A span of progress as torchspan writes it."""
    return recording.span(
        "torchspan.progress",
        start_ms + elapsed_ms,
        start_ms + elapsed_ms + 0.02,
        {
            s.KEEP: True,
            s.PROGRESS_WORK: "torch_tensorrt.compile",
            s.PROGRESS_ELAPSED: elapsed_ms / 1000,
            s.PROGRESS_NUMBER: number,
            **{getattr(s, name): value for name, value in attributes.items()},
        },
        parent=parent,
    )


def never_written(recording):
    """The span of a work that was killed: it has ids, and is in no file."""
    return recording._provider.get_tracer(s.SCOPE_NAME).start_span("torch_tensorrt.compile")


def test_progress_of_work_that_has_ended_is_not_drawn_and_not_counted(recording, shown):
    root = recording.span("torch_tensorrt.compile", 0, 3000, {s.MODEL_CLASS: "ConvNet"})
    recording.span("torch_tensorrt.convert", 500, 3000, {s.ENGINE_NAME: "_run_on_acc_0"}, parent=root)
    for number in range(30):
        reported(recording, number, 100 * number, parent=root, PROGRESS_RUNNING="x", PROGRESS_RUNNING_ELAPSED=1.0)

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 2 spans
torch_tensorrt.compile · ConvNet                      ████████████████    3.00 s
└─ torch_tensorrt.convert · _run_on_acc_0               █████████████     2.50 s
Own time  convert 2.50 s 83 %, compile 500 ms 17 %
"""
    )


def test_work_that_was_killed_is_one_line_with_what_was_last_seen_running(recording, shown):
    root = never_written(recording)
    for number in range(5):
        reported(
            recording,
            number,
            500 * number,
            parent=root,
            MODEL_CLASS="ConvNet",
            ENTRY_POINT="torch_tensorrt.compile",
            ENGINE_NAME="_run_on_acc_0",
            PROGRESS_RUNNING="tensorrt.build_engine",
            PROGRESS_RUNNING_ELAPSED=max(0.5 * number - 0.3, 0),
        )

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 1 span
torch_tensorrt.compile · ConvNet                      ████████████████  ≥ 2.00 s
   last seen in tensorrt.build_engine · _run_on_acc_0 for 1.70 s · incomplete
"""
    )


def test_what_was_done_before_the_kill_is_below_that_line(recording, shown):
    root = never_written(recording)
    recording.span("torch_tensorrt.trace", 0, 500, {s.NODES_COUNT: 19}, parent=root)
    reported(recording, 0, 0, parent=root, PROGRESS_RUNNING="torch_tensorrt.compile", PROGRESS_RUNNING_ELAPSED=0.0)
    reported(
        recording, 1, 1000, parent=root, PROGRESS_RUNNING="torch_tensorrt.decompose", PROGRESS_RUNNING_ELAPSED=0.25
    )

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 2 spans
torch_tensorrt.compile                                ████████████████  ≥ 1.00 s
│  last seen in torch_tensorrt.decompose for 250 ms · incomplete
└─ torch_tensorrt.trace  19 nodes                     ████████            500 ms
Own time  trace 500 ms 50 %, compile 250 ms 25 %, decompose 250 ms 25 %
"""
    )


def test_a_part_that_ended_after_the_last_heartbeat_says_more_than_that_heartbeat(recording, shown):
    root = never_written(recording)
    reported(
        recording, 1, 1000, parent=root, PROGRESS_RUNNING="torch_tensorrt.decompose", PROGRESS_RUNNING_ELAPSED=0.25
    )
    recording.span("torch_tensorrt.decompose", 750, 1500, parent=root)
    recording.span("torch_tensorrt.lower", 1500, 2000, parent=root)

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 3 spans
torch_tensorrt.compile  incomplete                    ████████████████  ≥ 2.00 s
├─ torch_tensorrt.decompose                                 ██████        750 ms
└─ torch_tensorrt.lower                                           ████    500 ms
Own time  compile 750 ms 38 %, decompose 750 ms 38 %, lower 500 ms 25 %
"""
    )


def test_progress_of_two_works_in_one_trace_is_two_lines(recording, shown):
    request = recording.span("request", 0, 2000, scope="app")
    for number in range(2):
        work = recording._provider.get_tracer(s.SCOPE_NAME).start_span("x", trace.set_span_in_context(request))
        running = {"PROGRESS_RUNNING": "torch_tensorrt.lower", "PROGRESS_RUNNING_ELAPSED": 0.1}
        reported(recording, 7, 1000, parent=work, start_ms=500 * number, MODEL_CLASS=f"Net{number}", **running)

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 3 spans
request                                               ████████████████    2.00 s
torch_tensorrt.compile · Net0                         ████████          ≥ 1.00 s
   last seen in torch_tensorrt.lower for 100 ms · incomplete
torch_tensorrt.compile · Net1                             ████████      ≥ 1.00 s
   last seen in torch_tensorrt.lower for 100 ms · incomplete
Own time  request 2.00 s 100 %, compile 1.80 s 90 %, lower 200 ms 10 %
"""
    )


def test_progress_that_says_nonsense_is_shown_as_far_as_it_can_be(recording, shown):
    root = never_written(recording)
    reported(recording, 0, 100, parent=root, PROGRESS_ELAPSED="long", PROGRESS_RUNNING="", PROGRESS_WORK="\x1b[2J")

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 1 span
\\x1b[2J  incomplete                                   ████████████████ ≥ 20.0 µs
"""
    )


def test_a_span_of_the_user_with_the_name_of_progress_is_a_span_like_any_other(recording, shown):
    root = recording.span("work", 0, 100, scope="app")
    recording.span("torchspan.progress", 0, 100, parent=root, scope="app")

    assert "└─ torchspan.progress " in shown(recording.path).waterfalls


def test_a_stand_in_is_marked_and_none_of_its_times_is_shown(recording, shown):
    root = recording.span("main", 0, 100, scope="app")
    steps = {s.STEP_NAMES: ["prepare"], s.STEP_COUNTS: [1], s.STEP_DURATIONS: [0.08]}
    stand_in = {s.ENGINE_NAME: "_run_on_acc_0", s.STAND_IN: True}
    recording.span("torch_tensorrt.execute", 10, 90, {**stand_in, **steps}, parent=root)

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 2 spans
main                                                  ████████████████    100 ms
└─ torch_tensorrt.execute · _run_on_acc_0              ░░░░░░░░░░░░░    stand-in
Own time  main 20.0 ms 100 %
          stand-in left out
"""
    )


def test_files_refits_and_compilations_that_wait_say_what_they_are(recording, shown):
    main = recording.span("main", 0, 100)
    recording.span("torch_tensorrt.compile", 92, 94, {s.MODEL_CLASS: "Net", s.DEFERRED: True}, parent=main)
    recording.span("torch_tensorrt.refit", 0, 30, {s.ENGINE_COUNT: 1, s.REFIT_OUTPUTS_MATCH: False}, parent=main)
    saved = {s.FILE_FORMAT: "exported_program", s.FILE_SIZE: 32_502, s.ENGINE_COUNT: 1, s.ENGINES_SIZE: 16_732}
    recording.span("torch_tensorrt.save", 40, 60, saved, parent=main)
    recording.span("torch_tensorrt.load", 70, 90, {s.FILE_SIZE: 7}, parent=main)

    assert (
        shown(recording.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 5 spans
main                                                  ████████████████    100 ms
├─ torch_tensorrt.refit                               █████              30.0 ms
│     1 engine · its outputs differ from the model's
├─ torch_tensorrt.save                                      ███          20.0 ms
│     1 engine of 16.7 kB · exported_program of 32.5 kB
├─ torch_tensorrt.load  file of 7 B                              ███     20.0 ms
└─ torch_tensorrt.compile · Net                                     ▏    2.00 ms
      compiles at its first call
Own time  refit 30.0 ms 30 %, main 28.0 ms 28 %, save 20.0 ms 20 %
"""
    )


def test_plain_tensorrt_is_reported_as_well(recording, shown):
    request = recording.span(
        "deploy", 0, 2000, {s.RUN_FOLDED: 3, s.RUN_FOLDED_SUM: 0.3, s.RUN_FOLDED_MAX: 0.2}, scope="app"
    )
    recording.span("tensorrt.parse", 0, 10, {s.MODEL_SIZE: 98, s.NETWORK_LAYERS: 2}, parent=request)
    failed = {s.MODEL_SIZE: 7, s.NETWORK_LAYERS: 0, s.ERROR_TYPE: "onnx_invalid_value", s.PARSER_ERROR: "no model"}
    recording.span("tensorrt.parse", 10, 20, failed, parent=request)
    recording.span("tensorrt.execute", 20, 30, {s.RUN_FIRST: True}, parent=request)

    out = shown(recording.path).waterfalls
    assert "+ 3 runs, 300 ms in all, longest 200 ms" in out
    assert "tensorrt.parse  98 B · 2 layers" in out
    assert "7 B · 0 layers · onnx_invalid_value: no model" in out
    assert "tensorrt.execute  first run" in out


def test_a_file_whose_name_begins_with_a_hyphen_stands_behind_two(recording, shell):
    """`torchspan show -- -x.jsonl` said that FILE is missing."""
    recording.span("work", 0, 10)
    for name in ("-x.jsonl", "--svg"):
        (shell.folder / name).write_bytes(Path(recording.path).read_bytes())
    result = shell("show", "--", "-x.jsonl", "--svg")
    assert (result.returncode, result.stderr) == (0, "")
    assert "\nwork  " in result.stdout


@pytest.mark.parametrize("options", [["--json"], ["--slowest", 3], ["--what-leaves"], ["--errors"]])
def test_an_option_that_looks_at_every_part_takes_no_number(recording, torchspan, options):
    recording.span("work", 0, 10)
    status, out, err = torchspan("show", *options, recording.path, 1)
    assert (status, out, err) == (2, "", f"torchspan show: {options[0]} looks at every part; leave out 1\n")


def test_only_parts_that_are_shown_have_numbers(recording, torchspan):
    recording.span("torch_tensorrt.compile", 0, 10)
    recording.span("torchspan.import", 20, 30)
    expected = (2, "", f"torchspan show: no part 2 in {recording.path}; it has part 1 alone\n")
    assert torchspan("show", recording.path, 2) == expected
    assert torchspan("show", "--all", recording.path, 2)[0] == 0


def test_equal_lines_of_tensorrts_log_that_are_not_shown_are_counted(recording, shown):
    line = {s.LOG_SEVERITY: "WARNING", s.LOG_MESSAGE: "no"}
    recording.span("tensorrt.build_engine", 0, 10, events=[(s.LOG_EVENT, line)] * 5)
    facts = [text.strip("│ ") for text in shown(recording.path).waterfalls.splitlines() if "TensorRT" in text]
    assert facts == ["TensorRT warning: no · TensorRT warning: no · 3 more lines of TensorRT's log"]
