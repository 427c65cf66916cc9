# SPDX-License-Identifier: Apache-2.0
"""Sentences in errors of a compilation: what compares two runs has them on request alone."""

import contextlib

import pytest
import torch
from opentelemetry.sdk.trace import TracerProvider

from privacy.sentences import SENTENCES
from support.dynamo import clean_dynamo
from support.run_recording import write_run
from torchspan import cli, testing
from torchspan.sdk import RunFileProcessor

SOME = SENTENCES[::50]


def product(x):
    return x * 2


def compile_with(backend, path, run_id):
    """Compile a function in a run whose file is at `path`."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(RunFileProcessor(path, run_id))
    with clean_dynamo(), testing.capture(tracer_provider=provider):
        with contextlib.suppress(Exception):
            torch.compile(product, backend=backend)(torch.ones(2))
    provider.shutdown()


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """For each sentence: the sentence, and the files of two runs of which the second failed with it."""
    folder = tmp_path_factory.mktemp("sides")

    def failing(sentence):
        def backend(graph, inputs):
            raise ValueError(sentence)

        return backend

    sides = []
    for number, sentence in enumerate(SOME):
        paths = [folder / f"{number}-{name}.jsonl" for name in ("before", "after")]
        for path, backend, run_id in zip(paths, ("eager", failing(sentence)), ("a" * 16, "b" * 16), strict=True):
            compile_with(backend, path, run_id)
            write_run(path, 0, 1_000_000, run_id=run_id)
        sides.append((sentence, paths))
    return sides


@pytest.mark.parametrize("option", [[], ["--json"], ["--markdown"]], ids=["text", "json", "markdown"])
def test_a_comparison_has_sentences_of_a_run_on_request_alone(compared, capsys, option):
    for sentence, paths in compared:
        for words, expected in (((), False), (("--text",), True)):
            assert cli.main(["compare", *map(str, paths), *option, *words]) == 0
            printed = " ".join(capsys.readouterr().out.split())
            assert (sentence in printed) is expected
