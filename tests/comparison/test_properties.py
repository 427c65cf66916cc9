# SPDX-License-Identifier: Apache-2.0
"""What holds of any two sides: programs that a seed chooses, with several runs, compilations, frames, findings and keys."""

import random

import pytest

from support.recording import Recording
from support.run_recording import RUN, RunRecording, write_run
from torchspan.comparison import ComparisonError, compare
from torchspan.words import semconv as s

STAGES = ("torch_tensorrt.lower", "torch_tensorrt.partition", "torch_tensorrt.convert", "tensorrt.build_engine")
REASONS = {"size": "tensor 'x' size mismatch at index 0. expected 2, actual 3", "other": "a guard"}


def some(chance, *pairs):
    """Some of the attributes."""
    return {key: chance.choice(values) for key, values in pairs if chance.random() < 0.7}


def compilation(recording, chance, at_ms, *, overlap=True):
    facts = some(
        chance, (s.TORCH_VERSION, ("1", "2")), (s.SETTINGS["min_block_size"], (5, 7)), (s.OPERATORS_TENSORRT, (3, 5))
    )
    own = {s.MODEL_CLASS: chance.choice("AB"), s.ENTRY_POINT: "torch_tensorrt.compile", s.OPERATORS_TOTAL: 5, **facts}
    spans = [recording.span("torch_tensorrt.compile", at_ms, at_ms + chance.randint(0, 500), own)]
    for position in range(chance.randint(0, 8)):
        begin = at_ms + (chance.randint(0, 400) if overlap else 50 * position)
        engine = some(
            chance, (s.ENGINE_OPERATORS, (2, 3)), (s.ENGINE_ID, ("a" * 16, "b" * 16)), (s.CACHE_RESULT, ("hit", "miss"))
        )
        name, parent = chance.choice(STAGES), chance.choice(spans) if overlap else spans[0]
        end = begin + (chance.randint(-50, 300) if overlap else 50)
        spans.append(recording.span(name, begin, end, engine, parent=parent))


def frame(recording, chance, at_ms):
    guard = chance.choice(list(REASONS))
    own = {s.CODE_FUNCTION: "forward", s.CODE_FILE: "model.py", s.CODE_LINE: chance.choice((3, 9))}
    own |= some(
        chance, (s.RECOMPILE_CLASS, (guard,)), (s.RECOMPILE_REASON, (REASONS[guard],)), (s.ERROR_TYPE, ("E", "F"))
    )
    own |= {
        s.INDUCTOR_CACHE_KEY_PARTS: ["gm", "torch"],
        s.INDUCTOR_CACHE_KEY_DIGESTS: [chance.choice("12"), chance.choice("12")],
    }
    broken = {s.GRAPH_BREAK_CLASS: "builtin", s.CODE_FILE: "model.py", s.CODE_LINE: chance.choice((4, 5))}
    events = [(s.GRAPH_BREAK_EVENT, broken)] * chance.randint(0, 2)
    recording.span("torch.compile_frame", at_ms, at_ms + chance.randint(0, 400), own, events=events)


def program(path, seed, *, overlap=True):
    """The path of a side: a folder of 1 to 6 runs, each of which compiles a model, and more.

    overlap: Whether stages run at the same time and outlive what is around them.
    """
    chance = random.Random(seed)
    path.mkdir()
    for number in range(chance.choice((1, 3, 4, 6))):
        recording = Recording(path / f"{number}.jsonl")
        recording.span("torch_tensorrt.compile", 0, chance.randint(0, 500), {s.MODEL_CLASS: "Net"})
        for position in range(chance.randint(0, 4)):
            if chance.choice((True, False)):
                compilation(recording, chance, 1_000 * (position + 1), overlap=overlap)
            else:
                frame(recording, chance, 1_000 * (position + 1))
    return path


def mirrored(change):
    return (change.kind, change.subject, change.new, change.base)


@pytest.mark.parametrize("seed", range(25))
def test_a_side_against_itself_has_no_change_and_no_difference(tmp_path, seed):
    path = program(tmp_path / "side", seed)
    result = compare(path, path)
    assert result.changes == ()
    assert {pair.whole.difference_s for pair in result.pairs} == {0}
    assert str(result).startswith("nothing has changed: compile ")


@pytest.mark.parametrize("seed", range(25))
def test_the_other_direction_has_the_same_changes_and_rows_with_the_sides_exchanged(tmp_path, seed):
    paths = program(tmp_path / "one", seed), program(tmp_path / "two", seed + 1_000)
    there, back = compare(*paths), compare(*reversed(paths))
    changes = [change for change in there.changes if change.kind != "compilations"]  # named as on the first side
    assert sorted((change.kind, change.subject, change.base, change.new) for change in changes) == (
        sorted(mirrored(change) for change in back.changes if change.kind != "compilations")
    )
    assert [pair.whole.p for pair in there.pairs] == [pair.whole.p for pair in back.pairs]
    assert [row.difference_s for pair in there.pairs for row in (pair.whole, *pair.parts)] == (
        [-row.difference_s for pair in back.pairs for row in (pair.whole, *pair.parts)]
    )


@pytest.mark.parametrize("seed", range(25))
def test_parts_that_ran_one_after_the_other_add_up_to_the_difference(tmp_path, seed):
    sides = (program(tmp_path / name, seed + more, overlap=False) for name, more in (("one", 0), ("two", 1_000)))
    for pair in compare(*sides).pairs:
        if pair.parts:
            assert sum(row.difference_s for row in pair.parts) == pytest.approx(pair.whole.difference_s, abs=1e-3)


@pytest.mark.parametrize("seed", range(25))
def test_the_rest_of_the_parts_that_are_shown_is_little(tmp_path, seed):
    for pair in compare(program(tmp_path / "one", seed), program(tmp_path / "two", seed + 1_000)).pairs:
        if len(pair.parts) <= 12:  # else there are more parts than are shown
            rest = [row.difference_s for row in pair.parts if row.path == ("rest",)]
            assert all(abs(s_) <= max(0.05 * abs(pair.whole.difference_s), 1e-3) + 1e-9 for s_ in rest)


@pytest.mark.parametrize("seed", range(10))
def test_runs_in_another_order_say_the_same(tmp_path, seed):
    one, two = program(tmp_path / "one", seed), program(tmp_path / "two", seed + 1_000)
    before = compare(one, two)
    for path in list(one.iterdir()):
        path.rename(one / f"{9 - int(path.stem)}-again.jsonl")
    after = compare(one, two)
    assert {(change.kind, change.subject) for change in after.changes} == (
        {(change.kind, change.subject) for change in before.changes}
    )
    assert [pair.whole.p for pair in after.pairs] == [pair.whole.p for pair in before.pairs]


# --- what is the same, whatever its order -----------------------------------------------------------------------------
def frames(path, *facts, events=()):
    """The path of a file with frames of one function, 100 ms each."""
    recording = Recording(path)
    own = {s.CODE_FUNCTION: "forward", s.CODE_FILE: "model.py", s.CODE_LINE: 3}
    for number, more in enumerate(facts):
        broken = [
            (s.GRAPH_BREAK_EVENT, {s.GRAPH_BREAK_CLASS: "builtin", s.CODE_FILE: "model.py", s.CODE_LINE: line})
            for line in events
        ]
        recording.span("torch.compile_frame", 200 * number, 200 * number + 100, {**own, **more}, events=broken)
    return path


def test_recompiles_for_the_same_guards_in_another_order_change_nothing(tmp_path):
    again = [{s.RECOMPILE_CLASS: guard, s.RECOMPILE_REASON: reason} for guard, reason in REASONS.items()]
    paths = frames(tmp_path / "before.jsonl", *again), frames(tmp_path / "after.jsonl", *reversed(again))
    assert compare(*paths).changes == ()


def test_as_many_breaks_at_other_lines_change_nothing(tmp_path):
    paths = frames(tmp_path / "before.jsonl", {}, events=(5, 6)), frames(tmp_path / "after.jsonl", {}, events=(7, 7))
    assert compare(*paths).changes == ()


def test_functions_of_one_name_and_line_in_files_of_one_name_are_summed(tmp_path):
    for name, times_ms in (("before", (100, 50)), ("after", (200, 60))):
        recording = Recording(tmp_path / f"{name}.jsonl")
        for folder, ms in zip("ab", times_ms, strict=True):
            facts = {s.CODE_FUNCTION: "forward", s.CODE_FILE: f"{folder}/model.py", s.CODE_LINE: 3}
            recording.span("torch.compile_frame", 1_000 * ord(folder), 1_000 * ord(folder) + ms, facts)
    (pair,) = compare(tmp_path / "before.jsonl", tmp_path / "after.jsonl").pairs
    assert (pair.name, pair.whole.base_s, pair.whole.new_s) == ("compile forward model.py:3", 0.15, 0.26)


def test_a_model_is_the_same_whichever_engine_comes_first(tmp_path):
    for name, shape in (("before", "[1, 3]"), ("after", "[1, 8]")):
        recording = Recording(tmp_path / f"{name}.jsonl")
        top = recording.span("torch_tensorrt.compile", 0, 100, {s.MODEL_CLASS: "Net"})
        recording.span("torch_tensorrt.convert", 10, 20, {s.ENGINE_OPERATORS: 2, s.INPUT_SHAPES: [shape]}, parent=top)
    changes = compare(tmp_path / "before.jsonl", tmp_path / "after.jsonl").changes
    assert [change.subject for change in changes] == ["engine of 2 ops [1, 8]", "engine of 2 ops [1, 3]"]


def test_a_side_is_called_by_the_name_of_its_folder_also_if_that_is_the_current_one(tmp_path, monkeypatch):
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        frames(tmp_path / name / "1.jsonl", {})
    monkeypatch.chdir(tmp_path / "before")
    assert compare(".", "../after").base.name == "before"
    link = tmp_path / "latest.jsonl"
    link.symlink_to(tmp_path / "after" / "1.jsonl")
    assert compare(".", link).new.name == "latest"


def test_fifty_runs_with_sixty_parts_are_compared_at_once(tmp_path):
    chance = random.Random(30)
    for side in ("before", "after"):
        (tmp_path / side).mkdir()
        for number in range(50):
            recording = Recording(tmp_path / side / f"{number:02}.jsonl")
            top = recording.span("torch_tensorrt.compile", 0, 5_000, {s.MODEL_CLASS: "Net"})
            begin = 0
            for position in range(60):
                ms = chance.randint(1, 9)
                recording.span(f"torch_tensorrt.pass {position}", begin, begin + ms, parent=top)
                begin += ms
    assert len(compare(tmp_path / "before", tmp_path / "after").pairs[0].whole.base_runs_s) == 50


def test_a_run_that_is_twice_among_the_files_is_refused_also_if_it_is_not_the_first(tmp_path):
    for number, run_id in enumerate("abb"):
        path = tmp_path / f"{number}.jsonl"
        RunRecording(path, run_id=run_id * 16).span(
            "torch_tensorrt.compile", 0, 100, {s.MODEL_CLASS: "Net"}, parent=RUN
        )
        write_run(path, 0, 200, run_id=run_id * 16)
    with pytest.raises(ComparisonError) as raised:
        compare(tmp_path, tmp_path / "0.jsonl")
    assert str(raised.value) == f"1.jsonl and 2.jsonl of {tmp_path} are one run; write it to one file, without %p"
