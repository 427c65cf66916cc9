# SPDX-License-Identifier: Apache-2.0
"""Observed `generate()` of a transformers model with random weights: prefill and decode, with and without a cache."""

from inspect import signature

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache, LlamaConfig, LlamaForCausalLM, StaticCache

from support.observed_calls import kinds, shapes
from torchspan.inputs import InputObserver, TensorShape
from torchspan.inputs.inferred.inference import Inference, made
from torchspan.inputs.observed.trees import Container, Opaque, Reader, leaves
from torchspan.inputs.watched.observed_process import ObservedProcess
from torchspan.inputs.written.documents import text_of

tree_leaves = torch.utils._pytree.tree_leaves
DYNAMIC = torch.export.Dim.DYNAMIC
EXPORTS = pytest.mark.skipif(
    torch.__version__ < (2, 14), reason="torch.export refuses dynamic shapes with `**kwargs` before 2.14"
)
# transformers 5.24 renamed the argument to "cache".
CACHE = "past_key_values" if "past_key_values" in signature(LlamaForCausalLM.forward).parameters else "cache"


@pytest.fixture(scope="module")
def model():
    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, bos_token_id=1
    )
    config.eos_token_id = None
    config.pad_token_id = 0
    return LlamaForCausalLM(config).eval()


@pytest.fixture
def observed(model):
    """An observer of a generation of four tokens, with these options."""

    def generate(**options):
        observer = InputObserver()
        with observer(model), torch.no_grad():
            model.generate(torch.ones(2, 5, dtype=torch.int64), max_new_tokens=4, do_sample=False, **options)
        return observer

    return generate


@pytest.fixture
def registered_cache():
    """The class is registered with pytree, as transformers does where it exports."""
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    nodes = torch.utils._pytree.SUPPORTED_NODES
    was = DynamicCache in nodes
    register_dynamic_cache_export_support()
    yield
    if not was:
        torch.utils._pytree._deregister_pytree_node(DynamicCache)
        torch.fx._pytree.SUPPORTED_NODES.pop(DynamicCache, None)
        torch.fx._pytree.SUPPORTED_NODES_EXACT_MATCH.pop(DynamicCache, None)


def test_prefill_and_decode_differ_by_what_the_cache_holds(observed, registered_cache):
    observer = observed()
    assert observer.num_obs() == 4
    shapes = observer._observed.snapshot().shapes
    counts = [sum(isinstance(leaf, TensorShape) for _, leaf in each.first.leaves()) for each in shapes]
    assert counts[0] < counts[1] == counts[2] == counts[3]
    assert counts[1] - counts[0] == 4


def test_a_cache_without_tensors_is_a_missing_argument(observed, registered_cache):
    observer = observed()
    alignment = observer._alignment()[2]
    prefill = made(Inference(alignment).example(alignment.shapes[0].first), {})
    assert prefill["input_ids"].shape == (2, 5)
    assert [tuple(each.shape) for each in torch.utils._pytree.tree_leaves(prefill[CACHE])] == [(2, 2, 5, 8)] * 4


def test_the_example_is_a_decode_step_with_its_cache_and_more_than_one_token(observed, registered_cache):
    arguments = observed().infer_arguments()
    assert type(arguments[CACHE]) is DynamicCache
    assert (arguments["input_ids"].shape, arguments["position_ids"].shape) == ((2, 5), (2, 5))


def test_a_cache_comes_out_of_a_file_without_values(observed, registered_cache):
    observer = observed()
    again = InputObserver.from_json(observer.to_json(values=False))
    for each in (observer, again):  # constants, and what `**kwargs` takes: the file does not have them
        each.remove_inputs(
            {"use_cache", "logits_to_keep", *(found.path for found in each.findings() if found.kind == "kwargs")}
        )
    assert again.infer_dynamic_shapes() == observer.infer_dynamic_shapes()
    made = again.infer_arguments()
    assert type(made[CACHE]) is DynamicCache
    assert [(name, tuple(each.shape)) for name, value in made.items() for each in tree_leaves(value)] == [
        (name, tuple(each.shape)) for name, value in observer.infer_arguments().items() for each in tree_leaves(value)
    ]


@EXPORTS
def test_what_is_inferred_with_a_cache_exports(observed, registered_cache, model):
    observer = observed()
    program = torch.export.export(
        model, (), kwargs=observer.infer_arguments(), dynamic_shapes=observer.infer_dynamic_shapes()
    )
    assert len(program.range_constraints) >= 2


def test_prefill_and_decode_of_a_generation_are_two_phases_of_its_profile(observed, registered_cache, model):
    observer = observed()
    profile = observer.infer_profile()
    assert {(each.min_shape, each.opt_shape, each.max_shape) for each in profile if each.path[0] == "input_ids"} == {
        ((2, 1), (2, 5), (2, 5))
    }
    caches = [each for each in profile if each.path[0] == CACHE]
    assert [(each.min_shape, each.opt_shape, each.max_shape) for each in caches] == [
        ((2, 2, 5, 8), (2, 2, 5, 8), (2, 2, 7, 8))
    ] * 4
    assert [(each.kind, each.path) for each in profile.findings] == [("opt", ""), ("optional", CACHE)]
    assert profile.findings[1].message.startswith(
        "It is missing in 1 of 4 calls. An exported program takes it in every"
    )


@EXPORTS
def test_a_decode_step_with_its_cache_is_exported_with_the_observed_ranges(observed, registered_cache, model):
    exported = observed().export(model)
    assert [each.kind for each in exported.findings] == ["opt", "optional"]
    ranges = {(int(each.lower), int(each.upper)) for each in exported.program.range_constraints.values()}
    assert ranges == {(2, 5), (5, 7)}
    assert [each.max_shape for each in exported.inputs if each and each.path[0] == CACHE] == [(2, 2, 7, 8)] * 4


def test_the_lengths_of_the_cache_vary(observed, registered_cache):
    shapes_of = observed().infer_dynamic_shapes(set_batch_dimension_for={"input_ids"})
    assert torch.utils._pytree.tree_leaves(shapes_of[CACHE]) == [DYNAMIC] * 4
    assert shapes_of["input_ids"] == {0: DYNAMIC, 1: DYNAMIC}


def test_a_size_of_one_in_each_decode_step_is_a_finding(observed, registered_cache):
    assert ("size_0_or_1", "input_ids") in kinds(observed())


def test_a_cache_that_is_not_registered_is_a_finding_and_generates(observed):
    assert ("opaque", CACHE) in kinds(observed())


@EXPORTS
def test_what_is_inferred_without_a_cache_exports(observed, model):
    observer = observed(use_cache=False)
    program = torch.export.export(
        model, (), kwargs=observer.infer_arguments(), dynamic_shapes=observer.infer_dynamic_shapes(), strict=False
    )
    assert "input_ids" in shapes(observer.infer_arguments())
    assert program.range_constraints


# --- a whole program, which registers nothing --------------------------------------------------------------------------
def generated():
    """What `torchspan run` observes of a program that makes a model and generates with it."""
    process = ObservedProcess(["transformers:LlamaForCausalLM"])
    try:
        config = LlamaConfig(
            vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2
        )
        model = LlamaForCausalLM(config).eval()
        with torch.no_grad():
            model.generate(torch.ones(2, 5, dtype=torch.int64), min_new_tokens=4, max_new_tokens=4, do_sample=False)
        return text_of(process.document())
    finally:
        process.close()


def test_a_cache_of_a_program_that_registers_nothing_is_recorded_as_a_registered_one(registered_cache, monkeypatch):
    registered = generated()
    with monkeypatch.context() as patch:
        patch.delitem(torch.utils._pytree.SUPPORTED_NODES, DynamicCache)
        observed = generated()
        assert DynamicCache not in torch.utils._pytree.SUPPORTED_NODES
    assert "key_cache" in observed
    assert observed == registered


def test_a_cache_of_a_program_that_registers_nothing_can_be_made_where_its_class_is_registered(request):
    assert DynamicCache not in torch.utils._pytree.SUPPORTED_NODES
    observer = InputObserver.from_json(generated())
    assert ("opaque", CACHE) not in kinds(observer)
    request.getfixturevalue("registered_cache")
    observer.remove_inputs(
        {"use_cache", "logits_to_keep", *(found.path for found in observer.findings() if found.kind == "kwargs")}
    )
    cache = observer.infer_arguments()[CACHE]
    assert type(cache) is DynamicCache
    assert [tuple(each.shape) for each in tree_leaves(cache)] == [(2, 2, 5, 8)] * 4


def read(value):
    return Reader(reads_caches=True).read(value, ("past",))


def filled(cache):
    cache.update(torch.ones(2, 2, 5, 8), torch.ones(2, 2, 5, 8), 0)
    return cache


def test_a_cache_of_an_encoder_and_a_decoder_has_both_caches_in_it():
    found = read(EncoderDecoderCache(filled(DynamicCache()), DynamicCache()))
    assert [path for path, _ in leaves(found, ("past",))] == [
        ("past", "self_attention_cache", "key_cache", 0),
        ("past", "self_attention_cache", "value_cache", 0),
    ]


def test_a_static_cache_is_read(model):
    found = read(filled(StaticCache(model.config, max_cache_len=9)))
    assert [(path, leaf.shape) for path, leaf in leaves(found, ("past",))] == [
        (("past", "key_cache", 0), (2, 2, 9, 8)),
        (("past", "value_cache", 0), (2, 2, 9, 8)),
    ]


def test_a_cache_of_a_derived_class_or_with_other_layers_stays_opaque():
    class Own(DynamicCache):
        pass

    class OwnLayer:
        keys = values = None

    other = DynamicCache()
    other.layers = [OwnLayer()]
    assert [type(read(each)) for each in (DynamicCache(), Own(), other)] == [Container, Opaque, Opaque]
