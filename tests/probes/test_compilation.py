# SPDX-License-Identifier: Apache-2.0
"""What is read of compilations, exports and parsed models, and of the files that they use."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from torchspan.base.scratch import Scratch
from torchspan.hooks.probes import Call
from torchspan.hooks.probes.describe import (
    artifacts,
    build,
    cache,
    compilation,
    compile_caches,
    conversion,
    declarations,
    export_failure,
    place,
)
from torchspan.hooks.probes.describe.common import engine_id, without_none

torch = pytest.importorskip("torch")
ConstraintViolationError = pytest.importorskip("torch.fx.experimental.symbolic_shapes").ConstraintViolationError


def graph_module():
    return torch.fx.symbolic_trace(torch.nn.ReLU())


@pytest.mark.parametrize("argument", ["gm", "module"])
def test_the_graph_that_a_compilation_was_given_is_not_what_it_has_compiled(argument):
    graph, compiled = graph_module(), graph_module()
    call = Call(None, (), {argument: graph})
    assert compilation.compiled_module(call, graph) is None
    assert compilation.compiled_module(call, compiled) is compiled


def test_a_compilation_that_returns_no_graph_has_compiled_no_module():
    assert compilation.compiled_module(Call(None, (), {}), torch.nn.ReLU()) is None


@pytest.fixture
def without_rtx(monkeypatch):
    library = SimpleNamespace(ENABLED_FEATURES=SimpleNamespace(tensorrt_rtx=False))
    monkeypatch.setitem(sys.modules, "torch_tensorrt", library)


def timing_cache(path):
    return conversion.timing_cache_in(Call(None, (), {"timing_cache_path": str(path)}))


def test_a_timing_cache_is_read_where_there_is_a_file_and_otherwise_created(without_rtx, tmp_path):
    (tmp_path / "there").write_bytes(b"cache")
    assert timing_cache(tmp_path / "there") == {"torch_tensorrt.timing_cache.file": "read"}
    assert timing_cache(tmp_path / "missing") == {"torch_tensorrt.timing_cache.file": "created"}


def test_tensorrt_rtx_has_no_timing_cache(without_rtx, tmp_path):
    sys.modules["torch_tensorrt"].ENABLED_FEATURES.tensorrt_rtx = True
    assert timing_cache(tmp_path / "missing") == {}
    del sys.modules["torch_tensorrt"].ENABLED_FEATURES  # nothing is known then
    assert timing_cache(tmp_path / "missing") == {}


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("You marked batch as dynamic but your code specialized it to be a constant (4)", "specialized to a constant"),
        ("Not all values of batch = L['x'].size()[0] in the range satisfy the generated guard", "not all values of its range are valid"),
        ("Not all values of batch are valid because batch was inferred to be a constant (4)", "specialized to a constant"),
        ("The values of batch and L['y'].size()[0] must always be equal", "always equal to ?"),
        ("The values of batch must always be related to the values of other by 2*other", "always related to ?"),
    ],
)  # fmt: skip
def test_the_violated_constraint_of_an_export_is_read_from_pytorchs_message(sentence, reason):
    error = ConstraintViolationError(f"Constraints violated (batch)!\n  - {sentence}.")
    assert without_none(export_failure.export(Call(None, (), {}), error, Scratch())) == {
        "torch.export.violated_constraints": [f"?: {reason}"],
        "torch.export.failed.reason": f"constraint violated: ?: {reason}",
    }


def test_what_was_loaded_is_known_by_its_class():
    script, other = torch.jit.ScriptModule(), object()
    formats = [artifacts.loaded(Call(None, (), {}), result, Scratch()) for result in (script, other)]
    assert formats == [{"torch_tensorrt.file.format": "torchscript"}, {"torch_tensorrt.file.format": "executorch"}]


def test_a_parsed_model_has_the_layers_of_its_network(monkeypatch):
    library = ModuleType("tensorrt_lean")
    monkeypatch.setitem(sys.modules, library.__name__, library)
    for name, values in (("OnnxParser", {"num_errors": 0}), ("INetworkDefinition", {"num_layers": 7})):
        setattr(library, name, type(name, (), {"__module__": library.__name__, **values}))
    call = Call(None, (library.OnnxParser(),), {})
    call.before = build.BeforeParse(library.INetworkDefinition(), 0)
    assert build.parsed(call, True, Scratch()) == {"tensorrt.network.layers": 7}


def test_an_engine_from_the_cache_has_its_size_and_the_id_of_its_bytes():
    hit = cache.looked_up(Call(None, (), {}), SimpleNamespace(serialized_engine=b"an engine"), Scratch())
    assert without_none(hit) == {
        "torch_tensorrt.engine_cache.result": "hit",
        "tensorrt.engine.size": 9,
        "tensorrt.engine.id": engine_id(b"an engine"),
    }


def test_a_stance_other_than_the_default_is_named():
    with torch.compiler.set_stance("force_eager"):
        assert declarations.stance() == {"torch.compile.stance": "force_eager"}
    assert declarations.stance() == {}


def test_a_setting_with_a_value_equal_to_its_default_has_not_changed(monkeypatch):
    kinds = pytest.importorskip("torch.utils._config_module")
    module = ModuleType("torch._inductor.config")
    module._config = {}
    for name, value in (("same", float("0.5")), ("other", 0.25)):
        entry = module._config[name] = kinds._ConfigEntry.__new__(kinds._ConfigEntry)
        entry.default, entry.user_override = 0.5, value
        entry.env_value_force = entry.env_value_default = kinds._UNSET_SENTINEL
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert list(compile_caches.changed_settings("inductor_config")) == ["other"]


def test_a_place_is_found_where_a_library_has_not_been_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch_tensorrt", raising=False)
    found = place.of_stack('  File "wanda/model.py", line 7, in forward\n    return x\n')
    assert (found.line, found.function) == (7, "forward")
