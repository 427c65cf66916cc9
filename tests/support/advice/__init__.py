# SPDX-License-Identifier: Apache-2.0
"""Programs for which a remedy is shown or not, and what following it does. `tests/advice/` has them, and a page is made of them."""

import contextlib
import io
import re
from dataclasses import dataclass, field

import pytest
import torch
from torch._dynamo.utils import counters

from support.dynamo import clean_dynamo
from torchspan.reading.answers.remedies import REMEDIES
from torchspan.testing import capture


@dataclass(frozen=True)
class Program:
    """A program.

    kind: a name of `REMEDIES`. would: in a program that only looks alike, the remedy that would not help; empty if it cannot be tried. None in
    a program for which the remedy is shown. variables: the environment of its process.
    """

    kind: str
    title: str
    source: str
    would: str | None = None
    slow: bool = field(default=False, kw_only=True)
    variables: dict = field(default_factory=dict, kw_only=True)

    @property
    def is_helped(self):
        return self.would is None


@dataclass
class Ran:
    """What a program did.

    shown: its remedies by kind. graphs, builds: how many graphs PyTorch compiled, and engines TensorRT built. error: the exception that ended it.
    """

    results: list
    shown: dict
    graphs: int
    builds: int
    said: object
    error: BaseException | None


def run(source):
    """Run the program under torchspan, with nothing compiled before."""
    names, error = {"__name__": "program"}, None
    with clean_dynamo(), torch._dynamo.config.patch(recompile_limit=8), contextlib.redirect_stdout(io.StringIO()):
        counters.clear()
        with capture() as captured:
            try:
                exec(compile(source, "program.py", "exec"), names)
            except Exception as raised:
                error = raised
        said, builds = captured.answers, len(captured.find("tensorrt.build_engine"))
        return Ran(names["results"], shown(said), counters["stats"]["unique_graphs"], builds, said, error)


def shown(answers):
    """The remedies, by kind."""
    findings = (
        *answers.recompiles,
        *answers.breaks,
        *answers.cache,
        *answers.fallbacks,
        *answers.errors,
        *answers.sizes,
    )
    remedies = [finding.remedy for finding in findings if finding.remedy]
    return {kind: texts for kind in REMEDIES if (texts := [text for text in remedies if is_of(kind, text)])}


def is_of(kind, text):
    return re.fullmatch(re.escape(REMEDIES[kind]).replace(r"\{\}", ".+"), text) is not None


def with_settings(source, remedy):
    """The program with the settings of the remedy in addition, which it names as arguments or as an entry of a dictionary."""
    code = re.sub(
        r"^(pass|add) | (turn it on|takes it into TensorRT|(to options )?to run (it|them) in PyTorch)$", "", remedy
    )
    added = f"{{{code}}}" if code.startswith('"') else f"dict({code.replace(' and ', ', ')})"
    return re.sub(r"# settings$", f"; settings |= {added}", source, flags=re.MULTILINE)


def helped(programs):
    """The programs for which the remedy is shown, as cases of a test."""
    return _cases([program for program in programs if program.is_helped])


def alike(programs):
    """The programs that only look alike, as cases of a test."""
    return _cases([program for program in programs if not program.is_helped])


def _cases(programs):
    marks = [pytest.mark.slow] if any(program.slow for program in programs) else []
    cases = [pytest.param(program, id=program.title, marks=marks if program.slow else ()) for program in programs]
    return pytest.mark.parametrize("program", cases)


def before_each_call(source, remedy):
    """The program with the statements of the remedy before each call."""
    code = remedy.removesuffix(" before each call")
    return re.sub(r"^( *)(.*# call)$", rf"\1{code}\n\1\2", source, flags=re.MULTILINE)


def with_a_raised_limit(source, remedy):
    """The program with a limit in the thread that compiles that none of the programs reaches."""
    setting = remedy.removeprefix("raise ").removesuffix(" in the thread that compiles")
    return re.sub(r"pass  # thread", f"import torch; {setting} = 1000", source)
