# SPDX-License-Identifier: Apache-2.0
"""Compilations of torch.compile in this process, observed from a clean Dynamo."""

import pytest
import torch._dynamo

from support.dynamo import clean_dynamo
from support.fake_time import MILLISECOND_NS, FakeTime, Ticking, replace_clocks
from support.garbage import not_collected
from torchspan.engine import event


@pytest.fixture(autouse=True)
def dynamo(instrument):
    """The bridge is enabled, and nothing has been compiled yet."""
    instrument()
    with clean_dynamo(), not_collected():
        yield torch._dynamo


@pytest.fixture
def every_phase(monkeypatch, exporter):
    """Each phase is long enough for a span."""
    replace_clocks(monkeypatch, event, Ticking(MILLISECOND_NS))
    exporter.with_phases = True


@pytest.fixture
def no_long_phase(monkeypatch, exporter):
    """No phase is long enough for a span."""
    FakeTime(monkeypatch)
    exporter.with_phases = True


@pytest.fixture
def spans(exporter):
    """Ended spans by name, in the order of their starts."""

    def named(name):
        found = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time)
        return [span for span in found if span.name == name]

    return named
