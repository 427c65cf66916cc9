# SPDX-License-Identifier: Apache-2.0
"""A table of objects by which object it is."""

import gc
import subprocess
import sys

import pytest

from support.hostile import RAN, hostiles
from torchspan.base.by_identity import ByIdentity

OBJECTS = 100_000


class Thing:
    """Equal to every other, as far as its class is concerned."""

    __hash__ = None

    def __eq__(self, other):
        return True


def test_objects_that_call_themselves_equal_are_kept_apart():
    table, first, second = ByIdentity(), Thing(), Thing()
    table[first] = 1
    assert (table.get(first), table.get(second)) == (1, None)


def test_it_keeps_nothing_alive_however_many_come_and_go():
    table = ByIdentity()
    for number in range(OBJECTS):
        table[Thing()] = number
    gc.collect()
    assert len(table) == 0


def test_an_object_at_the_address_of_one_that_is_gone_is_not_taken_for_it():
    table = ByIdentity()
    for _ in range(1000):
        thing = Thing()
        assert table.get(thing) is None
        table[thing] = 1
        del thing


def test_what_is_taken_out_is_gone():
    table, thing = ByIdentity(), Thing()
    table[thing] = 1
    assert (list(table), table.pop(thing), table.pop(thing), list(table)) == ([thing], 1, None, [])


@pytest.mark.parametrize("thing", [5, "text", (1, 2), None], ids=repr)
def test_what_cannot_be_referred_to_weakly_is_not_remembered(thing):
    table = ByIdentity()
    table[thing] = 1
    assert (table.get(thing), len(table)) == (None, 0)


def test_no_code_of_an_object_runs():
    RAN.clear()
    table = ByIdentity()
    for each in hostiles():
        table[each] = 1
        table.get(each)
        table.pop(each)
    assert RAN == []


SHUTDOWN = """
import sys, types
first = sys.modules["first"] = types.ModuleType("first")
from torchspan.base import by_identity
class Thing: pass
first.thing, table = Thing(), by_identity.ByIdentity()
table[first.thing] = 1
sys.kept = [by_identity, first, table]  # so Python empties both modules at its end, that of the table first
"""


def test_an_object_that_goes_when_the_interpreter_has_emptied_the_module_prints_nothing():
    done = subprocess.run([sys.executable, "-c", SHUTDOWN], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_code_of_python_runs_when_an_object_is_freed():
    remembered, ran = ByIdentity(), []
    thing = Thing()
    remembered[thing] = "value"
    sys.setprofile(lambda frame, event, _argument: ran.append(frame.f_code.co_name) if event == "call" else None)
    try:
        del thing
    finally:
        sys.setprofile(None)
    assert (ran, len(remembered)) == ([], 0)  # a signal handler that Python runs there could not end the program


def test_of_two_values_that_are_set_the_first_one_stays():
    remembered, thing = ByIdentity(), Thing()
    assert [remembered.setdefault(thing, "first"), remembered.setdefault(thing, "second")] == ["first", "first"]
