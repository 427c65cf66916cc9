# SPDX-License-Identifier: Apache-2.0
"""Exports by other ways in: objects that stand for dynamic shapes, drafts, and the export that imports PyTorch's tracer."""

import gc
import sys

import pytest
import torch
from opentelemetry.trace import StatusCode

from support.tree import named, outline

ROWS = torch.ones(4, 3)


class Adds(torch.nn.Module):
    """Adds a tensor to the first of a pair."""

    def forward(self, x, pair):
        return x + pair[0]


class Branches(torch.nn.Module):
    """Its result depends on a condition on data."""

    def forward(self, x):
        return x + 1 if x.sum() > 0 else x


def arguments():
    return ROWS.clone(), (ROWS.clone(),)


def asked(exporter):
    """The dynamic dimensions of the one export."""
    return named(exporter.get_finished_spans(), "torch.export").attributes["torch.export.dynamic_shapes"]


# --- objects that stand for dynamic shapes ----------------------------------------------------------------------------
@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_a_collection_of_shapes_is_listed_by_where_its_tensors_are(instrument, exporter, strict):
    instrument()
    x, pair = arguments()
    shapes, dimension = torch.export.ShapesCollection(), torch.export.Dim("SECRET", min=2, max=8)
    shapes[x] = {0: dimension}
    shapes[pair[0]] = {0: dimension}
    torch.export.export(Adds(), (x, pair), dynamic_shapes=shapes, strict=strict)
    assert asked(exporter) == (
        "inputs[0].shape[0]: [2, 8]",
        "inputs[1][0].shape[0]: [2, 8], equal to inputs[0].shape[0]",
    )


def test_a_dimension_of_a_collection_for_which_an_export_fails_is_named_by_where_it_is(instrument, exporter):
    instrument()
    x, pair = arguments()
    shapes = torch.export.ShapesCollection()
    shapes[x] = {0: torch.export.Dim("SECRET")}
    with pytest.raises(RuntimeError):
        torch.export.export(Adds(), (x, pair), dynamic_shapes=shapes)
    reason = named(exporter.get_finished_spans(), "torch.export").attributes["torch.export.failed.reason"]
    assert reason == "constraint violated: inputs[0].shape[0]: specialized to a constant"


def test_dimensions_that_differ_among_additional_inputs_are_dynamic(instrument, exporter):
    instrument()
    more = torch.export.AdditionalInputs()
    more.add((torch.ones(6, 3), (torch.ones(6, 3),)))
    torch.export.export(Adds(), arguments(), dynamic_shapes=more)
    assert asked(exporter) == ("inputs[0].shape[0]: dynamic", "inputs[1][0].shape[0]: dynamic")


# --- drafts -----------------------------------------------------------------------------------------------------------
@pytest.fixture
def draft():
    """`torch.export.draft_export`. It does not close its log, which goes with the last reference."""
    yield torch.export.draft_export
    gc.collect()


drafting = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


@drafting
def test_a_draft_says_what_it_has_passed_over(instrument, exporter, draft):
    instrument()
    program = draft(Branches(), (ROWS,))
    assert len(program._report.failures) == 1
    span = named(exporter.get_finished_spans(), "torch.export")
    assert span.attributes["torch.export.draft"] is True
    assert span.attributes["torch.export.issues.classes"] == ("data_dependent_error",)
    assert span.attributes["torch.export.issues.counts"] == (1,)
    assert span.status.status_code is StatusCode.UNSET


@drafting
def test_a_draft_that_exports_a_second_time_is_one_span(instrument, exporter, draft):
    instrument()
    draft(Adds(), arguments(), dynamic_shapes={"x": {0: torch.export.Dim("SECRET")}, "pair": (None,)})
    spans = exporter.get_finished_spans()
    assert outline(spans) == ["torch.export\n  torch.export.trace\n  torch.export.trace"]
    attributes = named(spans, "torch.export").attributes
    assert attributes["torch.export.dynamic_shapes"] == ("inputs[0].shape[0]: [0, int_oo]",)
    assert attributes["torch.export.issues.classes"] == ("guard_added",)


@drafting
def test_a_draft_without_problems_has_none_and_an_export_is_not_a_draft(instrument, exporter, draft):
    instrument()
    draft(Adds(), arguments())
    torch.export.export(Adds(), arguments())
    drafted, exported = (each.attributes for each in exporter.get_finished_spans() if each.name == "torch.export")
    assert drafted["torch.export.draft"] is True
    assert not {"torch.export.issues.classes", "torch.export.issues.counts"} & set(drafted)
    assert "torch.export.draft" not in exported


@drafting
def test_a_draft_that_fails_says_why(instrument, exporter, draft):
    class Fails(torch.nn.Module):
        def forward(self, x):
            raise LookupError("SECRET")

    instrument()
    with pytest.raises(LookupError):
        draft(Fails(), (ROWS,))
    span = named(exporter.get_finished_spans(), "torch.export")
    assert span.attributes["torch.export.failed.reason"].startswith("LookupError was raised, at pipeline/test_dynamic")
    assert span.attributes["error.type"] == "LookupError"


# --- the tracer is imported late --------------------------------------------------------------------------------------
@pytest.fixture
def _without_tracer(monkeypatch):
    """PyTorch's tracer has not been imported, as in a program without Torch-TensorRT."""
    for name in ("_trace", "_draft_export"):
        monkeypatch.delitem(sys.modules, f"torch.export.{name}", raising=False)
        monkeypatch.delattr(torch.export, name, raising=False)


@pytest.mark.usefixtures("_without_tracer")
def test_the_export_that_imports_pytorchs_tracer_is_a_span(instrument, exporter):
    instrument()
    assert "torch.export._trace" not in sys.modules
    torch.export.export(Adds(), arguments())
    assert outline(exporter.get_finished_spans()) == ["torch.export\n  torch.export.trace"]


@drafting
@pytest.mark.usefixtures("_without_tracer")
def test_the_draft_that_imports_pytorchs_tracer_is_one_as_well(instrument, exporter, draft):
    instrument()
    draft(Adds(), arguments())
    span = named(exporter.get_finished_spans(), "torch.export")
    assert span.attributes["torch.export.draft"] is True
