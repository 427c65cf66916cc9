# SPDX-License-Identifier: Apache-2.0
import pytest

from torchspan.redaction.guard_text import GuardText


@pytest.mark.parametrize(
    ("guard", "kept"),
    [
        ("L['x'] == 3", "x == ?"),
        ("G['limit'] == 'wanda'", "G['limit'] == ?"),
        ("L['x'].size()[0] == 3", "x.size()[0] == 3"),
        ("L['x'].size()[0] == 3 and L['pin'] == 4711", "x.size()[0] == 3 and pin == ?"),
        ("tensor 'L['x']' size mismatch at index 0. expected 3, actual 4", "tensor 'x' size mismatch at index 0. expected 3, actual 4"),
        ("tensor 'L['x']' dtype mismatch. expected Float, actual Half", "tensor 'x' dtype mismatch. expected Float, actual Half"),
        # attributes and keys that look like a name of Dynamo's
        ("L['self'].G['wanda'] == 3", "self.G[?] == ?"),
        ("L['self'].L['wanda'] == 3", "self.L[?] == ?"),
        ("tensor 'L['self'].G['wanda']' rank mismatch. expected 2, actual 3", "tensor 'self.G[?]' rank mismatch. expected 2, actual 3"),
        # a number belongs to a size only within its own clause
        ("L['x'].size()[0] == 3 | (L['pin'] == 4711)", "x.size()[0] == 3 | (pin == ?)"),
        ("L['x'].size()[0] == 3 if L['pin'] == 4711 else 5", "x.size()[0] == 3 if pin == ? else ?"),
        # texts that are not guards
        ("L['x'] == 3  # + wanda", "?"),
        ("tensor 'L['Float']' dtype mismatch. expected a, actual Float", "tensor 'Float' dtype mismatch. expected ?, actual Float"),
    ],
)  # fmt: skip
def test_a_guard_leaves_with_its_names_and_without_its_literals(guard, kept):
    assert GuardText().reduced(guard) == kept
