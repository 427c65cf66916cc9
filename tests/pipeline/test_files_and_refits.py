# SPDX-License-Identifier: Apache-2.0
"""Saving, loading, refitting, modules that compile themselves: what their spans say."""

import pytest
import torch
import torch_tensorrt
from opentelemetry.trace import StatusCode

from pipeline.expected import KEEP, SETTINGS, STAND_IN, VERSION, VERSIONS, converts_methods
from support import models
from support import route_runs as run
from support.tree import POSITIVE, STEPS, TEXT, S, assert_trees, named, trees

pytestmark = [
    pytest.mark.skipif(VERSION < (2, 13), reason="the older Python runtime can neither be saved nor refitted"),
    pytest.mark.filterwarnings("ignore"),  # of the libraries' exporters
    pytest.mark.slow,
]
X = run.X


def test_saving_tells_format_engines_and_the_size_of_the_file(instrument, exporter, tmp_path):
    module = run.compiled()
    (engine,) = [child for name, child in module.named_children() if name.startswith("_run_on_acc")]
    path = tmp_path / "m.pt2"
    instrument()
    torch_tensorrt.save(module, str(path), arg_inputs=[X], retrace=False)
    expected = {
        **KEEP,
        **VERSIONS,
        **STEPS,
        "torch_tensorrt.entry_point": "torch_tensorrt.save",
        "torch_tensorrt.file.format": "exported_program",
        "file.size": path.stat().st_size,
        "torch_tensorrt.engines.count": 1,
        "torch_tensorrt.engines.size": len(engine.serialized_engine),
    }
    assert_trees(exporter.get_finished_spans(), [S("torch_tensorrt.save", expected)])


def test_loading_tells_what_the_file_held(instrument, exporter, tmp_path):
    path = tmp_path / "m.pt2"
    torch_tensorrt.save(run.compiled(), str(path), arg_inputs=[X], retrace=False)
    instrument()
    torch_tensorrt.load(str(path))
    expected = {
        **KEEP,
        **VERSIONS,
        "torch_tensorrt.entry_point": "torch_tensorrt.load",
        "torch_tensorrt.file.format": "exported_program",
        "file.size": path.stat().st_size,
        "torch_tensorrt.engines.count": 1,
        "torch_tensorrt.engines.size": POSITIVE,
    }
    reading = S(
        "tensorrt.deserialize_engine",
        {**KEEP, **STAND_IN, "tensorrt.engine.size": POSITIVE, "tensorrt.engine.id": TEXT},
    )
    assert_trees(exporter.get_finished_spans(), [S("torch_tensorrt.load", expected, reading)])


def test_no_path_of_the_user_is_recorded(instrument, exporter, tmp_path):
    path = tmp_path / "SECRET-4711.pt2"
    instrument()
    torch_tensorrt.save(run.compiled(), str(path), arg_inputs=[X])
    torch_tensorrt.load(str(path))
    assert "SECRET" not in "".join(span.to_json() for span in exporter.get_finished_spans())


def test_a_torchscript_file_is_loaded_at_the_second_attempt_and_that_is_not_an_error(instrument, exporter, tmp_path):
    path = str(tmp_path / "m.ts")
    torch.jit.save(torch.jit.trace(run.mlp(), X), path)
    instrument()
    torch_tensorrt.load(path)
    span = named(exporter.get_finished_spans(), "torch_tensorrt.load")
    assert span.attributes["torch_tensorrt.file.format"] == "torchscript"
    assert span.status.status_code is StatusCode.UNSET
    assert span.events == ()


def test_a_file_that_is_none_of_these_is_an_error_with_the_librarys_own_exception(instrument, exporter, tmp_path):
    path = tmp_path / "m.pt2"
    path.write_bytes(b"nothing")
    instrument()
    with pytest.raises(ValueError, match="doesn't correspond to a valid Torchscript module"):
        torch_tensorrt.load(str(path))
    span = named(exporter.get_finished_spans(), "torch_tensorrt.load")
    assert span.attributes["error.type"] == "ValueError"
    assert span.attributes["file.size"] == len(b"nothing")
    assert "torch_tensorrt.file.format" not in span.attributes


@pytest.mark.parametrize("path", ["", "no/such/file"])
def test_a_file_that_is_missing_is_the_programs_error(instrument, exporter, path):
    instrument()
    with pytest.raises(ValueError):
        torch_tensorrt.load(path)
    assert named(exporter.get_finished_spans(), "torch_tensorrt.load").attributes["error.type"] == "ValueError"


def test_a_refit_tells_whether_its_outputs_match(instrument, exporter):
    module, new = run.compiled(immutable_weights=False), run.program(5)
    instrument()
    torch_tensorrt.dynamo.refit_module_weights(module, new, arg_inputs=[X], verify_output=True, in_place=True)
    span = named(exporter.get_finished_spans(), "torch_tensorrt.refit")
    assert {
        key: span.attributes[key] for key in span.attributes if key.startswith(("torch_tensorrt.", "torch.model."))
    } == {
        "torch_tensorrt.version": torch_tensorrt.__version__,
        "torch_tensorrt.entry_point": "torch_tensorrt.dynamo.refit_module_weights",
        "torch.model.class": "Mlp",
        "torch_tensorrt.refit.outputs_match": True,
        "torch_tensorrt.operators.total": 3,
        "torch_tensorrt.operators.supported": 3,
        "torch_tensorrt.operators.tensorrt": 3,
        "torch_tensorrt.coverage": 1.0,
        "torch_tensorrt.engines.count": 1,
    }
    assert "_refit_single_trt_engine_with_gm" in span.attributes["torchspan.steps.names"]


def test_a_refit_whose_outputs_differ_is_only_logged_by_the_library_and_shows(instrument, exporter, monkeypatch):
    module, new = run.compiled(immutable_weights=False), run.program(5)
    # What a GPU might compute: the stand-in runs the new weights in PyTorch, so its outputs always match.
    monkeypatch.setattr("torch_tensorrt.dynamo.utils.check_output_equal", lambda *_args, **_kwargs: False)
    instrument()
    torch_tensorrt.dynamo.refit_module_weights(module, new, arg_inputs=[X], verify_output=True)
    span = named(exporter.get_finished_spans(), "torch_tensorrt.refit")
    assert span.attributes["torch_tensorrt.refit.outputs_match"] is False


def test_a_refit_of_an_engine_with_immutable_weights_fails_with_the_librarys_message(instrument, exporter):
    module, new = run.compiled(), run.program(5)
    instrument()
    with pytest.raises(AssertionError, match="Refitting is not enabled"):
        torch_tensorrt.dynamo.refit_module_weights(module, new)
    (event,) = named(exporter.get_finished_spans(), "torch_tensorrt.refit").events
    assert event.attributes["exception.message"].startswith("Refitting is not enabled. Please recompile")


def test_a_refit_that_leaves_everything_to_pytorch_is_marked(instrument, exporter):
    """The settings of the compiled module decide; a new program with nothing supported is returned as it is."""
    module = run.compiled(immutable_weights=False)

    class Unsupported(torch.nn.Module):
        def forward(self, x):
            return torch.special.i1e(x)

    new = torch_tensorrt.dynamo.trace(Unsupported().eval(), arg_inputs=[X])
    instrument()
    result = torch_tensorrt.dynamo.refit_module_weights(module, new)
    assert not [name for name, _ in result.named_children() if name.startswith("_run_on_acc")]
    span = named(exporter.get_finished_spans(), "torch_tensorrt.refit")
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes["torch_tensorrt.fallback.reason_classes"] == ("no_supported_operators", "no_converter")
    assert span.attributes["torch_tensorrt.engines.count"] == 0
    assert span.attributes["torch_tensorrt.operators.tensorrt"] == 0


def test_a_mutable_module_that_cannot_refit_compiles_again_and_both_show(instrument, exporter, monkeypatch):
    module = torch_tensorrt.MutableTorchTensorRTModule(run.mlp(), min_block_size=1)
    module(X)

    def refuses(**_arguments):
        raise RuntimeError("boom")

    instrument()
    monkeypatch.setattr("torch_tensorrt.dynamo._refit._refit_single_trt_engine_with_gm", refuses)
    module.load_state_dict(run.mlp(5).state_dict())
    assert torch.allclose(module(X), run.mlp(5)(X))
    first, second, _run = trees(exporter.get_finished_spans())
    assert (first.name, first.attributes["error.type"]) == ("torch_tensorrt.refit", "RuntimeError")
    assert (second.name, second.attributes["torch_tensorrt.entry_point"]) == (
        "torch_tensorrt.compile",
        "torch_tensorrt.MutableTorchTensorRTModule",
    )
    assert "error.type" not in second.attributes
    assert first.attributes["torch_tensorrt.operators.planned"] == 3
    assert not {"torch_tensorrt.operators.tensorrt", "torch_tensorrt.coverage"} & first.attributes.keys()
    assert second.attributes["torch_tensorrt.operators.tensorrt"] == 3
    assert "torch_tensorrt.operators.planned" not in second.attributes


def test_a_mutable_module_names_its_model_and_its_settings(instrument, exporter):
    instrument()
    torch_tensorrt.MutableTorchTensorRTModule(run.mlp(), min_block_size=1)(X)
    span = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
    assert span.attributes["torch.model.class"] == "Mlp"
    settings = {key: value for key, value in span.attributes.items() if key.startswith("torch_tensorrt.settings.")}
    assert settings == {**SETTINGS, "torch_tensorrt.settings.immutable_weights": False}


@converts_methods
def test_converting_to_the_bytes_of_an_engine_tells_their_number(instrument, exporter):
    instrument()
    serialized = torch_tensorrt.convert_method_to_trt_engine(
        run.mlp(), "forward", inputs=[X], ir="dynamo", min_block_size=1
    )
    span = named(exporter.get_finished_spans(), "torch_tensorrt.convert_to_engine")
    assert span.attributes["tensorrt.engine.size"] == len(serialized)
    assert span.attributes["torch_tensorrt.entry_point"] == "torch_tensorrt.convert_method_to_trt_engine"
    assert span.attributes["torch.model.class"] == "Mlp"
    assert span.attributes["torch_tensorrt.settings.min_block_size"] == 1
    assert span.attributes["torch.inputs.shapes"] == ("[2, 16]",)
    assert span.attributes["torch.inputs.dtypes"] == ("float32",)


@converts_methods
def test_converting_an_operator_without_a_converter_is_an_error_on_the_way_up(instrument, exporter):
    instrument()
    with pytest.raises(Exception, match="not currently fully supported"):
        torch_tensorrt.convert_method_to_trt_engine(
            models.seeded(models.Fallback), "forward", inputs=[models.image()], ir="dynamo"
        )
    spans = exporter.get_finished_spans()
    failed = {span.name: span.attributes["error.type"] for span in spans if "error.type" in span.attributes}
    unsupported = "torch_tensorrt.dynamo.conversion._TRTInterpreter.UnsupportedOperatorException"
    assert failed == {
        "torch_tensorrt.construct_network": unsupported,
        "torch_tensorrt.convert_to_engine": unsupported,
    }
    # The library raises a second exception with the whole graph in its message.
    (event,) = named(spans, "torch_tensorrt.convert_to_engine").events
    assert (
        event.attributes["exception.message"] == "Conversion of module ? not currently fully supported or convertible!"
    )


def test_compiling_by_torch_compile_says_that_nothing_was_compiled_yet(instrument, exporter):
    instrument()
    torch_tensorrt.compile(run.mlp(), ir="torch_compile", min_block_size=1)
    span = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
    assert span.attributes["torch_tensorrt.deferred"] is True
    assert span.attributes["torch_tensorrt.ir"] == "torch_compile"
