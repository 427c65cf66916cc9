# SPDX-License-Identifier: Apache-2.0
"""Every phase that PyTorch reports has a sentence, in the installed version and in a real compilation."""

import ast
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import torch._inductor.utils

from compile_phases import COMPILE_PHASES, STAGES
from support.dynamo import clean_dynamo

REPORTS = {"dynamo_timed", "chromium_event_timed", "log_event_start", "dynamo_timed_cudagraph"}
PHASES = {**COMPILE_PHASES, **STAGES}


def compile_phase(name):
    """The row of a phase or a stage: that of its name, else the first whose pattern matches; None without one."""
    return next((PHASES[key] for key in (name, *COMPILE_PHASES) if key in PHASES and fnmatchcase(name, key)), None)


def texts(node):
    """The texts that an argument is: of a literal, of a name given in the call, or of an f-string with `0` in each hole."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.NamedExpr(value=inner):
            return texts(inner)
        case ast.IfExp(body=one, orelse=other):
            return [*texts(one), *texts(other)]
        case ast.JoinedStr(values=parts):
            return ["".join(part.value if isinstance(part, ast.Constant) else "0" for part in parts)]
    return []


def reported_in(path):
    """The names of phases that a file of PyTorch's reports."""
    text = path.read_text(encoding="utf-8")
    if not any(name in text for name in REPORTS):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in REPORTS:
            named = {keyword.arg: keyword.value for keyword in node.keywords}
            yield from texts(named.get("phase_name") or (node.args[0] if node.args else named.get("key")))


@pytest.fixture(scope="module")
def reported():
    folder = Path(torch.__file__).parent
    files = [
        file
        for part in ("_dynamo", "_functorch", "_higher_order_ops", "_inductor", "fx")
        for file in (folder / part).rglob("*.py")
    ]
    return {name for file in files for name in reported_in(file)}


def test_each_phase_in_the_source_of_the_installed_pytorch_has_a_sentence(reported):
    assert len(reported) > 70
    assert sorted(name for name in reported if compile_phase(name) is None) == []


@pytest.mark.slow
def test_each_phase_of_a_real_training_step_has_a_sentence(monkeypatch):
    names = []
    report = torch._dynamo.utils.record_chromium_event_internal

    def recorded(event, *args, **kwargs):
        names.append(event["name"])
        return report(event, *args, **kwargs)

    monkeypatch.setattr(torch._dynamo.utils, "record_chromium_event_internal", recorded)
    with clean_dynamo(), torch._inductor.utils.fresh_cache():
        model = torch.compile(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()), backend="inductor")
        for rows in (2, 3):
            model(torch.ones(rows, 8)).sum().backward()

    assert {"dynamo", "entire_backward_compile", "inductor_compile", "compile_file"} <= set(names)
    assert sorted({name for name in names if compile_phase(name) is None}) == []


def test_a_phase_of_a_family_has_the_sentence_of_its_family():
    assert compile_phase("compile_attempt_3").meaning.startswith("One attempt at a frame")
    assert compile_phase("mm_template_autotuning").meaning == "The candidates for one operator are timed."


def test_an_unknown_phase_has_none():
    assert compile_phase("no_such_phase") is None


@pytest.mark.parametrize("name", PHASES)
def test_a_meaning_is_a_sentence_and_advice_is_a_sentence_or_nothing(name):
    assert PHASES[name].meaning.endswith(".")
    assert PHASES[name].advice.endswith(".") or PHASES[name].advice == ""


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("gc", "TORCH_DYNAMO_RUN_GC_AFTER_COMPILE"),
        ("compile_file", "TORCHINDUCTOR_CACHE_DIR"),
        ("async_compile.wait", "TORCHINDUCTOR_COMPILE_THREADS"),
        ("CacheBase.get_system.triton_key", "triton"),
        ("torchspan.import", "before the first request"),
        ("decompose", "torch_tensorrt.save"),
        ("Determining refit engines", "reuse_cached_engines"),
        ("Timing tactics", "optimization_level"),
        ("release_host_and_device_memory", "gc.freeze()"),
    ],
)
def test_the_advice_names_the_setting(name, setting):
    assert setting in compile_phase(name).advice
