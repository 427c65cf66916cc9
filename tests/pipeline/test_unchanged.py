# SPDX-License-Identifier: Apache-2.0
"""Never changing what is observed: the same models, bare and traced."""

import contextlib
import hashlib
import logging
import sys
import types

import pytest
import tensorrt_rtx
import torch
import torch_tensorrt
from torch_tensorrt.dynamo import Debugger

from support import models

MODES = {
    "stages": {"detail": "stages"},
    "passes": {"detail": "passes"},
    "TensorRT's phases": {"detail": "stages", "build_phases": "on"},
}
traced = pytest.mark.parametrize(
    "mode", [mode if mode == "stages" else pytest.param(mode, marks=pytest.mark.slow) for mode in MODES]
)
MODELS = {
    "bert": (models.bert, lambda: torch.arange(32).reshape(2, 16)),
    "conv": (lambda: models.seeded(models.ConvNet), models.image),
    "fallback": (lambda: models.seeded(models.Fallback), models.image),
}


def compiled(name):
    make, make_input = MODELS[name]
    x = make_input()
    program = torch_tensorrt.dynamo.trace(make(), arg_inputs=[x])
    return program, torch_tensorrt.dynamo.compile(program, arg_inputs=[x], min_block_size=1)


def engines(module):
    """sha256 of each engine, by the name of its subgraph."""
    return {
        name: hashlib.sha256(child.serialized_engine).hexdigest()
        for name, child in module.named_children()
        if hasattr(child, "serialized_engine")
    }


@pytest.fixture(scope="module")
def bare():
    """Each model compiled without the bridge."""
    with torch.no_grad():
        return {name: compiled(name) for name in MODELS}


@traced
@pytest.mark.parametrize("name", MODELS)
def test_engines_are_the_same_bytes(instrument, bare, mode, name):
    instrument(**MODES[mode])
    _, module = compiled(name)
    assert engines(module) == engines(bare[name][1])
    assert engines(module)


@traced
def test_exported_and_compiled_graphs_are_the_same(instrument, bare, mode):
    instrument(**MODES[mode])
    program, module = compiled("fallback")
    bare_program, bare_module = bare["fallback"]
    assert str(program.graph) == str(bare_program.graph)
    assert module.code == bare_module.code
    assert [name for name, _ in module.named_modules()] == [name for name, _ in bare_module.named_modules()]


def recorded_configs(monkeypatch):
    """The builder configuration, field by field, of every build from now on."""
    records = []
    build = tensorrt_rtx.Builder.build_serialized_network

    def recording(self, network, config):
        names = [name for name in dir(config) if not name.startswith("_")]
        values = {name: getattr(config, name) for name in names if not callable(getattr(config, name))}
        pool = config.get_memory_pool_limit(tensorrt_rtx.MemoryPoolType.WORKSPACE)
        records.append({**{name: str(value) for name, value in values.items()}, "workspace": pool})
        return build(self, network, config)

    monkeypatch.setattr(tensorrt_rtx.Builder, "build_serialized_network", recording)
    return records


@traced
def test_the_builder_configuration_is_the_same_field_by_field(instrument, monkeypatch, mode):
    records = recorded_configs(monkeypatch)
    compiled("conv")
    instrument(**MODES[mode])
    compiled("conv")
    bare_config, traced_config = records
    if "build_phases" in MODES[mode]:
        assert bare_config.pop("progress_monitor") == "None"
        assert "ProgressMonitor" in traced_config.pop("progress_monitor")
    assert traced_config == bare_config
    assert len(bare_config) > 10


def attributes(*roots):
    """Names of the instance attributes of everything a user holds."""
    found = {}
    for index, root in enumerate(roots):
        modules = root.named_modules() if isinstance(root, torch.nn.Module) else [("", root)]
        for path, each in modules:
            if hasattr(each, "__dict__"):
                found[index, path, type(each).__name__] = sorted(vars(each))
            engine = getattr(each, "engine", None)
            if engine is not None and hasattr(engine, "__dict__"):
                found[index, path, "engine"] = sorted(vars(engine))
    return found


def objects_of_a_compilation():
    model, x = models.seeded(models.Fallback), models.image()
    program = torch_tensorrt.dynamo.trace(model, arg_inputs=[x])
    module = torch_tensorrt.dynamo.compile(program, arg_inputs=[x], min_block_size=1)
    module(x)
    settings = next(child.settings for _, child in module.named_children() if hasattr(child, "settings"))
    return attributes(model, x, program, program.graph_module, module, settings)


@traced
def test_no_attribute_is_added_to_an_object_of_the_user(instrument, mode):
    bare_objects = objects_of_a_compilation()
    instrument(**MODES[mode])
    assert objects_of_a_compilation() == bare_objects


def test_results_are_the_same_numbers(instrument, bare):
    x = models.image()
    expected = bare["fallback"][1](x)
    instrument()
    _, module = compiled("fallback")
    assert torch.equal(module(x), expected)


# --- undoing -------------------------------------------------------------------------------------------------------


def everything_bound():
    """Every name in torch_tensorrt and what we reach from it, with the object it is bound to."""
    bound = {}
    holders = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "torch_tensorrt"}
    for module_name, module in holders.items():
        if isinstance(module, types.ModuleType):
            for name, value in vars(module).items():
                bound[module_name, name] = value
                if isinstance(value, type) and value.__module__.startswith("torch_tensorrt"):
                    bound.update({(module_name, name, key): each for key, each in vars(value).items()})
    classes = (
        torch.export.ExportedProgram,
        tensorrt_rtx.Builder,
        tensorrt_rtx.Runtime,
        sys.modules["tensorrt"].Runtime,
    )
    for held in classes:
        bound.update({(held.__module__, held.__qualname__, key): value for key, value in vars(held).items()})
    bound["export"] = torch.export.export
    if hasattr(torch.ops.tensorrt, "execute_engine"):
        operator = torch.ops.tensorrt.execute_engine
        bound["operator"], bound["overload"] = operator._op, operator.default._op
    return bound


def changes(before, after):
    """Keys bound to another object than before; the writing of caches that only fill up is not meant."""
    return sorted(str(key) for key in before if after.get(key) is not before[key])


def test_instrumenting_replaces_names_and_uninstrumenting_restores_the_original_objects(instrument):
    before = everything_bound()
    instrumentor = instrument(detail="passes")
    assert len(changes(before, everything_bound())) > 80
    instrumentor.uninstrument()
    assert changes(before, everything_bound()) == []


def test_names_imported_while_we_were_on_are_restored_as_well(instrument, monkeypatch):
    instrumentor = instrument()
    late = types.ModuleType("torch_tensorrt.imported_late")
    late.compile_module = torch_tensorrt.dynamo._compiler.compile_module
    monkeypatch.setitem(sys.modules, late.__name__, late)
    instrumentor.uninstrument()
    assert late.compile_module is torch_tensorrt.dynamo._compiler.compile_module


def test_a_name_that_another_package_replaced_meanwhile_stays_theirs(instrument, exporter):
    module = torch_tensorrt.dynamo._compiler
    original = module.compile
    instrumentor = instrument()
    torchspans = module.compile

    def theirs(*args, **kwargs):
        return torchspans(*args, **kwargs)

    module.compile = theirs
    try:
        instrumentor.uninstrument()
        assert module.compile is theirs
        program = torch_tensorrt.dynamo.trace(models.seeded(models.Mlp), arg_inputs=[torch.ones(2, 16)])
        theirs(program, arg_inputs=[torch.ones(2, 16)], min_block_size=1)
        assert exporter.get_finished_spans() == ()
    finally:
        module.compile = original


@contextlib.contextmanager
def debugger(tmp_path):
    """Torch-TensorRT's Debugger, with the root logger as it was afterwards: it does not put that back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        with Debugger(logging_dir=str(tmp_path), log_level="info"):
            yield
    finally:
        for handler in root.handlers[:]:
            root.removeHandler(handler)
            handler.close()
        for handler in handlers:
            root.addHandler(handler)
        root.setLevel(level)


@pytest.mark.fault("libraries", "Torch-TensorRT's Debugger")
@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")  # a temporary folder of the Debugger
@pytest.mark.parametrize("order", ["within the instrumentation", "around the instrumentation", "interleaved"])
def test_the_debugger_finds_and_leaves_every_name_as_it_was(instrument, exporter, tmp_path, order):
    before = everything_bound()
    x = torch.ones(2, 16)

    def work():
        torch_tensorrt.compile(models.seeded(models.Mlp), ir="dynamo", inputs=[x], min_block_size=1)

    if order == "within the instrumentation":
        instrumentor = instrument()
        with debugger(tmp_path):
            work()
        instrumentor.uninstrument()
    elif order == "around the instrumentation":
        with debugger(tmp_path):
            instrumentor = instrument()
            work()
            instrumentor.uninstrument()
    else:
        instrumentor = instrument()
        with debugger(tmp_path):
            work()
            instrumentor.uninstrument()
    assert changes(before, everything_bound()) == []
    assert "torch_tensorrt.compile" in {span.name for span in exporter.get_finished_spans()}
