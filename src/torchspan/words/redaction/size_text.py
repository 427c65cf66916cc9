# SPDX-License-Identifier: Apache-2.0
"""Kinds of text about sizes and data types."""

from __future__ import annotations

import re
from functools import lru_cache

from torchspan.words.redaction import UNKNOWN
from torchspan.words.redaction.kinds_of_text import OTHER_VALUE, Enumeration, Formed, Kind
from torchspan.words.redaction.type_names import DATA_TYPES, NOT_TENSORS

_SYMBOL = r"(?:z?[su]|zu?f)[0-9]{1,19}(?![0-9])|int_oo|Max|Min|Mod|PythonMod|FloorDiv|CeilDiv|CleanDiv|IntTrueDiv"
_SIZES = rf"(?:[0-9]{{1,19}}(?![0-9])|{_SYMBOL}|\.\.|[-+*/%()\[\],: ^?])*"
"""No text can match in two ways, so a mismatch is found in one pass."""


@lru_cache(maxsize=512)
def _is_sizes(text: str) -> bool:
    return re.fullmatch(rf"(?:{_SYMBOL}|\?): \[{_SIZES}\]|\[{_SIZES}\]", text) is not None


class ShapeText(Kind):
    """A shape or a range of sizes: `[1, 16]`, `[1..4..8, s77]`, `s77: [1, 8]`.

    Sizes of tensors: numbers, and the symbols that PyTorch gives to dynamic sizes (`[1, 16]`, `[1..4..8, s77]`, `s77: [1, 8]`). For an
    argument without a shape, the name of its type (`int`). Anything else is `?`.
    """

    title = "shape"
    _LIMIT = 512

    def accepts(self, text: str) -> bool:
        """See `Kind`."""
        return text in NOT_TENSORS or text == UNKNOWN or (len(text) <= self._LIMIT and _is_sizes(text))


class ArgumentPath(Formed):
    """The path of a tensor in the arguments of a call.

    The name of a parameter, followed by the positions in its containers (`past[0][1]`), at most 256 characters. The program has chosen
    the name. Keys of dictionaries and names of arguments for `**kwargs` are `?`.
    """

    title = "place in arguments"
    form = r"(?=.{1,256}$)[^\W\d]\w*(?:\.\?)?(?:\[(?:[0-9]{1,9}|\?)\])*"


class DataType(Enumeration):
    """The data type of a tensor, or the type of an argument that is not a tensor."""

    title = "data type"

    def __init__(self) -> None:
        super().__init__(*DATA_TYPES, *sorted(NOT_TENSORS))
        self.leaves = (
            "The name of a data type (`float32`), or of the type of an argument that is not a tensor (`int`). Anything "
            f"else is `{OTHER_VALUE}`."
        )


class SettingValue(Formed):
    """The value of a setting, if it is a number or one of a library's own words.

    A number, `True`, `False`, `None`, a data type or a word from Torch-TensorRT's own lists (`EngineCapability.STANDARD`). Anything
    else is `?`.
    """

    title = "value of a setting"
    form = (
        r"-?\d{1,19}|-?\d{1,19}\.\d{1,19}|-?\d(?:\.\d{1,19})?e[-+]?\d{1,3}|True|False|None|none|fast|moderate|full"
        r"|EngineCapability\.(?:STANDARD|SAFETY|DLA_STANDALONE)"
        rf"|(?:torch\.|dtype\.)(?:{'|'.join(DATA_TYPES)}|[uif]\d{{1,2}}|b|bf16)"
    )
