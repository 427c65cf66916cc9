# SPDX-License-Identifier: Apache-2.0
"""Messages are reduced by the texts in the code of the library that raised them."""

from pathlib import Path

import pytest
import torch
import torch_tensorrt

from torchspan.words.redaction import messages
from torchspan.words.redaction.code_texts import texts_of

VALUE = "the patient has pain in the left hand and asks for help with the current loss of function"
LINEAR = torch.nn.Linear(2, 2)


def raised(work, *arguments):
    with pytest.raises(Exception) as caught:
        work(*arguments)
    return caught.value


def function_of(folder, *body):
    """A function of one argument, `value`, whose code is in a file of a folder."""
    scope = {"__name__": "torch.wanda"}
    code = "\n ".join(["def work(value):", *body])
    exec(compile(code, f"{folder}/wanda.py", "exec"), scope)
    return scope["work"]


TORCH = Path(torch.__file__).parent


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (("raise ValueError('the model has no engine')",), "the model has no engine"),
        (("raise ValueError('wanda')",), "wanda"),
        (("for text in ('wanda', 'krol'): pass", "raise ValueError(text)"), "krol"),
        (("raise ValueError(f'the model {value} has no engine')",), "the model ? has no engine"),
        (("raise ValueError(f'the model {value.upper()!r:>9} has {len(value)} engines')",), "the model ? has ? engines"),
        (("raise ValueError(f'{value}{value} has no engine')",), "? has no engine"),
        (("raise ValueError(f'the model has no engine {value}')",), "the model has no engine ?"),
        (("raise ValueError('the model ' + value + ' has no engine')",), "the model ? has no engine"),
        (("text = f'the model {value} '", "text += f'has no engine {value}'", "raise ValueError(text)"), "?has no engine ?"),
        (("raise ValueError('the model {} has {name:>20} engines'.format(value, name=value))",), "the model ? has ? engines"),
        (("raise ValueError('the model %s has %-4.2f engines' % (value, 0.5))",), "the model ? has ? engines"),
        (("raise ValueError('the model %(name)s has no engine' % {'name': value})",), "the model ? has no engine"),
        (("raise ValueError('the model has no engine  \\n')",), "the model has no engine"),
        (("raise ValueError(f'the model {value or 1} has {None and value} engines')",), "the model ? has ? engines"),
        (("raise ValueError(f'{value} abcde fghij')",), "? abcde fghij"),
        (("raise ValueError(f'{value} abcde fghi')",), "?"),
        (("raise ValueError(f'{value}: {value}')",), "?"),
        (("raise ValueError(f'{value} is bad')",), "?"),
        (("raise ValueError(value)",), "?"),
    ],
)  # fmt: skip
def test_a_message_leaves_with_the_words_of_the_code_that_raised_it(body, kept):
    assert messages.of_error(raised(function_of(TORCH, *body), VALUE)) == kept


@pytest.mark.parametrize(
    ("file", "is_of_library"),
    [
        (TORCH, True),
        (TORCH / "nn", True),
        (f"{TORCH}\\nn", True),
        (f"{TORCH}_wanda", False),
        ("/srv/wanda", False),
        ("<string>", False),
    ],
)
def test_only_the_words_of_code_in_a_file_of_the_library_leave(file, is_of_library):
    work = function_of(file, "raise ValueError(f'the model {value} has no engine')")
    assert messages.of_error(raised(work, VALUE)) == ("the model ? has no engine" if is_of_library else "?")


def test_a_text_between_two_others_of_much_code_is_put_together_from_its_own_words():
    noise = [f"name_{number} = 'word {number}' if value else f'other {{value}} {number}'" for number in range(300)]
    body = [*noise, "if not value: return", "raise ValueError(f'the model {value} has {name_299} engines')", *noise]
    assert messages.of_error(raised(function_of(TORCH, *body), VALUE)) == "the model ? has ? engines"


def test_the_words_of_a_function_that_is_called_are_not_those_of_the_one_that_raised():
    inner = function_of("/srv/wanda", "raise ValueError(f'the model {value} has no engine')")
    outer = function_of(TORCH, "'the model {} has no engine'", "value()")
    assert messages.of_error(raised(outer, lambda: inner(VALUE))) == "?"


def test_a_row_of_the_table_keeps_shapes_that_the_words_of_the_code_do_not():
    work = function_of(TORCH, "raise RuntimeError(f'mat1 and mat2 shapes cannot be multiplied ({value} and {value})')")
    assert messages.of_error(raised(work, "2x3")) == "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"


def test_of_the_values_only_the_names_of_data_types_leave():
    work = function_of(TORCH, "raise TypeError(f'Expect {value}, got {value} for the input')")
    assert messages.of_error(raised(work, torch.float32)) == "Expect torch.float32, got torch.float32 for the input"
    assert messages.of_error(raised(work, "long")) == "Expect ?, got ? for the input"


CALLS = {
    "in_channels must be divisible by groups": lambda: torch.nn.Conv2d(3, 3, 1, groups=2),
    "embed_dim must be divisible by num_heads": lambda: torch.nn.MultiheadAttention(3, 2),
    "'?' object has no attribute '?'": lambda: LINEAR.wanda,
    "? has no attribute `?`": lambda: LINEAR.get_submodule(VALUE),
    "Unknown nonlinearity '?'. Select from 'tanh' or 'relu'.": lambda: torch.nn.RNN(1, 1, nonlinearity=VALUE),
    "Expected more than 1 value per channel when training, got input size ?": lambda: torch.nn.BatchNorm1d(3)(torch.ones(1, 3)),
    "? is not a valid value for reduction": lambda: torch.nn.functional.mse_loss(LINEAR.weight, LINEAR.weight, reduction=VALUE),
    "Unrecognized mode=?, should be one of: ?": lambda: torch.compile(LINEAR, mode=VALUE),
    "Expected `mod` to be an instance of `torch.nn.Module`, got ?.": lambda: torch.export.export(len, ()),
    "The underlying op of '?' has no overload name '?'": lambda: torch.ops.aten.add.wanda,
    "Unknown device type ?": lambda: torch_tensorrt.Device(f"{VALUE}:0"),
}  # fmt: skip


@pytest.mark.parametrize("kept", CALLS)
def test_a_message_of_pytorch_or_torch_tensorrt_leaves_without_a_row_in_the_table(kept):
    error = raised(CALLS[kept])
    assert (messages.of_error(error), messages.of_text(str(error))) == (kept, "?")


def test_each_text_of_a_function_is_known_once_and_never_as_values_alone():
    work = function_of(TORCH, "return (f'{value}: {value}', '{}', '%s: %d', 'a', 'a')")
    assert sorted(row.literals for row in texts_of(work.__code__).rows) == [("%s: %d",), (":",), ("a",), ("{}",)]
