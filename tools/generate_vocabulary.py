# SPDX-License-Identifier: Apache-2.0
"""Writes src/torchspan/_base/vocabulary.txt: the words that a recorded message may keep.

    python tools/generate_vocabulary.py --english FILE --names FOLDER SITE-PACKAGES ...

The words are those of the texts that PyTorch, Torch-TensorRT and TensorRT hand to exceptions, warnings and logs: string
literals of their Python (by its syntax tree) and sentences in their shared libraries. A plain word must also be in a
list of English words (`--english`, one a line: Debian's `wamerican`), or be a technical word that the Python literals
repeat. First names and frequent surnames (`--names`: the folder of the PyPI package `names`, which has those of a
census), companies, products, days, months and numbers are left out, except for the reviewed words of `KEPT`. Several
folders of installed packages are united: one environment holds TensorRT, another TensorRT-RTX.

What is left out on purpose, and what is kept although it is a name, is the part of this file that a person reviews.
`tests/_base/test_vocabulary.py` holds the file that is written to these lists.
"""

import argparse
import ast
import builtins
import collections
import keyword
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "src" / "torchspan" / "_base" / "vocabulary.txt"

PACKAGES = (
    "torch",
    "torch_tensorrt",
    "tensorrt",
    "tensorrt_bindings",
    "tensorrt_rtx",
    "tensorrt_rtx_bindings",
    "onnx",
)
LIBRARIES = (
    "torch/lib/libc10.so",
    "torch/lib/libc10_cuda.so",
    "torch/lib/libtorch_cpu.so",
    "torch/lib/libtorch_python.so",
    "torch_tensorrt/lib/libtorchtrt*.so",
    "torch_tensorrt/_C*.so",
    "tensorrt*_libs/libnvinfer.so.*",
    "tensorrt*_libs/libnvonnxparser.so.*",
    "tensorrt*_libs/libtensorrt_*.so.*",
    "tensorrt*_bindings/*.so",
)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SURNAMES = 20_000
"""How many of the census's surnames, the most frequent, are left out. Those behind it are mostly English words."""

# --- reviewed: names that are kept, because messages cannot be read without them -----------------------------------
KEPT = words("""
    able all an and any args arg bad bail base be begin best bias block body both bottom bounds branch break call
    can case center channel channels check choice class clear client core cost current days default delay depth do
    dot due either else even factor fails false few file files fill fit fix flag flatten for form forward found from
    full gain gather gathers given go graph group guard hand handle handler hang hard has hash have head heap height
    here hold holder hook hooks host if in is it job join just key keys kind lack large last layer leaf leaks least
    left length less level like limit line linear link list little local lock long Long look lookup loop low lower
    main major manual many mask match matter max may means meta min minor miss mix more most much must my near new
    next no not null number numbers of off ok old on only open or order other out outer over own pack pair parent
    parts pass patch path peak pickle place plain point pointer pool poor port prefix prior proper race range rank
    rather re reach read reader reading ready real Real reason record register render right ring roll room root row
    rule run runner running said same sample samples save say scale scales see seed self set shape short Short
    should show shows side single singleton sink size skip slow small so some soon sort source speed square stack
    stage standard start state states step still stop stops store string stuck sub such sum super take tell test
    than that the them then there this through till time to todo too total true try tune type under union unit up
    upper use value var view void wait wake was way weight well were when which will wire with without word work
    works worth would wrap yet you your zip Block Branch Case Call Check Class Clear Failed File Found Given Got
    Graph Head Host If In Is It Key Keys Last Layer Left Length Level Like Link List Local Lock Lower Main Meta Min
    Mix Module More New No Not Null Number Only Or Output Pack Parent Parts Pass Patch Path Place Point Pool Range
    Rank Read Ready Reader Reading Record Register Right Root Row Rule Run Runner Running Same Sample Save Scale See
    Self Set Shape Show Single Size Skip So Some Source Square Stack Stage Start State Step Stop Store String Sub
    Sum Super Take Test The Then This To Total True Try Type Union Unit Use Value View Wait Way Weight When With
    Work driver drivers back free freed session Current Bias
    """)
"""Case counts: `max` and `will` are kept, `Max` and `Will` are not."""

# --- reviewed: what is left out whatever list has it ------------------------------------------------------------------
NUMBERS = words("""
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand thousands
    million millions billion billions trillion dozen dozens ones twos zeros zeroes oh third fourth fifth sixth
    seventh eighth ninth tenth eleventh twelfth
    """)
DATES = words("""
    january february march april june july august september october november december jan feb mar apr jun jul aug
    sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs
    fri sat spring summer autumn winter christmas easter
    """)
COMPANIES = words("""
    adobe airbus alibaba alphabet amazon amd android anaconda apache apple arm aws azure baidu bayer bing blackberry
    blackwell bloomberg boeing bosch broadcom canon chase chrome chromium cisco citadel dell delta docker dropbox
    ebay excel expedia facebook fedex fbcode firefox ford gap garmin gemini github gmail google hitachi honda hopper
    huawei huggingface ibm ibmz intel jaguar java jetson jira kayak kraken lenovo linkedin linux llama mac macbook
    macos mastercard maxwell mercedes mercury meta micron microsoft mint mistral mitsubishi mustang nestle netflix
    nike nintendo nokia nvidia office openai oracle outlook palantir pandora pascal paypal pepsi philips pixel
    pytorch qualcomm quest radeon redhat reddit roche safari salesforce samsung sap shell siemens signal skype slack
    snap snapchat sony spotify sprint square starbucks stripe subway sun swift target teams tegra telegram tesla
    thor tiktok tinder toshiba toyota turing twitter uber ubuntu unity verizon visa volta volvo walmart waymo
    whatsapp windows wolfram word xbox xeon xerox yahoo yelp youtube zara zillow zoom
    """)
NEEDED_PRODUCTS = words("PyTorch Pytorch pytorch meta square target Target signal word words shell Meta")
"""Words of `COMPANIES` that the libraries' texts use as terms, or that are the libraries' own names."""

AFFAIRS = words("""
    account accounts address alias aliases birthday boss brother brochure canary cancer card child children city
    company confidential contract credit customer customers daughter diagnosis disease doctor employee employees
    father female friend friends friendly girl governor guest health home hospital house husband income invoice king
    lawyer love loan login male man manager married medical merger minister money mother nurse owner parents partner
    passport password passwords patient patients payment payments payroll people person personal phone police
    president prince prison prisoner private project queen religion salary secret secrets sender sister soldier son
    street student teacher telephone treatment user users victim wallet wife woman
    """) - words("address alias aliases child children owner private project user users")
"""Words that a text about people has and a text about graphs does not."""

# --- reviewed: terms of the field that are in no list of English words -------------------------------------------------
TERMS = words("""
    Myelin myelin Dynamo Inductor Autograd autograd dtype dtypes opset Opset CUDA cuDNN cuBLAS CPU GPU API TensorRT
    tensorrt Torch-TensorRT ONNX onnx TRT NaN NaNs nan inf bool int float str dict tuple list bytes complex NoneType
    None True False SM FP8 FP4 INT8 INT4 FP16 BF16 FP32 FP64 INT32 INT64 BOOL UINT8 NVFP4 MXFP8 DLA ms us ns MB MiB
    GB GiB KB KiB nvinfer nvinfer1 vs e.g i.e etc id ids ok refit refittable dequantize quantize strongly-typed
    weakly-typed SUCCESS UNSPECIFIED_ERROR INTERNAL_ERROR INVALID_ARGUMENT INVALID_CONFIG FAILED_ALLOCATION
    FAILED_INITIALIZATION FAILED_EXECUTION FAILED_COMPUTATION INVALID_STATE UNSUPPORTED_STATE MEM_ALLOC_FAILED
    MODEL_DESERIALIZE_FAILED INVALID_VALUE INVALID_GRAPH INVALID_NODE UNSUPPORTED_GRAPH UNSUPPORTED_NODE
    UNSUPPORTED_NODE_ATTR UNSUPPORTED_NODE_INPUT UNSUPPORTED_NODE_DATATYPE UNSUPPORTED_NODE_DYNAMIC
    UNSUPPORTED_NODE_SHAPE REFIT_FAILED Error Warning Info Verbose VERBOSE INTERNAL Eq enforce subspaces unhinted
    Steps Volume Selection Op IDs FX KV TS I/O linearization reshaped loaded OutOfMemory BuildCanceled canceled ForeignNode TensorRT-LLM
    TensorRT-RTX copy-back constant-fold KV-cache NCHW NHWC setInputTensorAddress setTensorAddress MatrixMultiply
    c10::Half c10::BFloat16 torch.nn.Module DefaultCPUAllocator bounds Current Bias driver back free session
    """)
SHORT_WORDS = words("""
    a s as at be by do go id if in ir is it me my no of ok on op or so to up vs we If In Is It No Or So To
    """)
"""The words of one or two letters. Others could be a name spelled out."""

TYPES = tuple(
    f"{prefix}{name}"
    for prefix in ("", "torch.")
    for name in (
        *[
            "float16",
            "float32",
            "float64",
            "bfloat16",
            "complex32",
            "complex64",
            "complex128",
            "half",
            "double",
            "bfloat",
        ],
        *[
            "int4",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint4",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "quint8",
            "qint8",
            "qint32",
            "quint4x2",
        ],
        *["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"],
        *[
            "strided",
            "sparse_coo",
            "sparse_csr",
            "channels_last",
            "channels_last_3d",
            "contiguous_format",
            "preserve_format",
        ],
    )
) + tuple(
    f"torch.{name}"
    for name in [
        "float",
        "int",
        "long",
        "bool",
        "short",
        "Size",
        "Tensor",
        "device",
        "dtype",
        "layout",
        "SymInt",
        "SymFloat",
        "SymBool",
        "Generator",
    ]
)

BUILTINS = frozenset(name for name in dir(builtins) if len(name) > 2) - {"copyright", "credits", "license", "zip"}

_HANDERS = re.compile(
    r"warn\w*|error|info|debug|exception|critical|log|print_log|unimplemented\w*|graph_break\w*|_?check\w*|_?assert\w*"
    r"|fail|\w*(?:Error|Exception|Warning|Violation\w*|Unsupported)",
    re.IGNORECASE,
)
"""Functions that are handed a message."""
_MESSAGES = re.compile(
    r"(?:msg|message|reason|explanation|hint|error|warning|description|context|text|gb_type)s?$", re.IGNORECASE
)
"""Variables and keywords that hold one."""
_SENTENCE = re.compile(r"(?:^|[\s(])(?:[A-Za-z][a-z']*[,:]? ){2}[a-z']+\b")
_CODE = re.compile(r"//|/\*|\*/|;\s*$|[{};]\s|</|\\n.*\\n|copyright|licen[sc]e", re.IGNORECASE)

_METHOD = re.compile(r"I[A-Z]\w+::\w+|k[A-Z][A-Z_]+")
"""What TensorRT puts before a message (`IBuilder::buildSerializedNetwork`), and its enumerators."""

_SPLIT = re.compile(r"(?:[\s()\[\]{}<>,;=\"|!`]|(?<!:):(?!:))+")
"""As `templates` splits."""
_TRIMMED = ".'*+-&^:?"
_PLAIN = re.compile(r"[A-Za-z]+")
_HUMPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_CAMEL = re.compile(r"(?:[A-Z][A-Za-z]*[a-z][A-Z]|[A-Z]{2,}[a-z]|[a-z]+[A-Z])[A-Za-z0-9]*")
_IDENTIFIER = re.compile(r"_{0,2}[A-Za-z]\w*(?:(?:\.|::)_{0,2}[A-Za-z]\w*)*", re.ASCII)
_LONG_NUMBER = re.compile(r"\d{4}|(?<=[a-f])\d[a-f]\d")
_COMPOUND = re.compile(r"[A-Za-z]+(?:[-'/][A-Za-z]+)+")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--english", type=Path, required=True, help="English words, one a line")
    parser.add_argument("--names", type=Path, required=True, help="the folder of the package `names`")
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="SITE-PACKAGES", help="where the libraries are installed"
    )
    options = parser.parse_args()
    python: collections.Counter[str] = collections.Counter()
    native: collections.Counter[str] = collections.Counter()
    classes: set[str] = set()
    for folder in options.folders:
        for package, tree in trees(folder):
            classes |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
            python.update(word for text in set(literals(tree)) for word in words_of(text))
            if package == "torch_tensorrt":
                python.update(settings(tree))
        native.update(word for text in sentences(folder) for word in words_of(text))
    choice = Choice(options.english.read_text("utf-8").split(), names(options.names))
    kept = choice.kept(python, native, classes)
    FILE.write_text("".join(f"{word}\n" for word in sorted(kept)), encoding="utf-8")
    print(f"{FILE}: {len(kept)} words of {len(python)} in Python and {len(native)} in libraries")


def trees(folder: Path) -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for file in sorted(folder.glob(f"{package}/**/*.py*")):
            if file.suffix in {".py", ".pyi"} and not {"testing", "test", "tests", "caffe2"} & set(file.parts):
                yield package, ast.parse(file.read_text("utf-8"))


def literals(tree: ast.Module) -> Iterator[str]:
    """The texts that the module hands to what raises, warns or logs."""
    for node in ast.walk(tree):
        match node:
            case ast.Raise(exc=ast.AST() as raised):
                yield from texts(raised)
            case ast.Assert(msg=ast.AST() as message):
                yield from texts(message)
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if _HANDERS.fullmatch(name):
                for argument in (*node.args, *(each.value for each in node.keywords)):
                    yield from texts(argument)
            case ast.keyword(arg=str(name)) if _MESSAGES.search(name):
                yield from texts(node.value)
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)]) if _MESSAGES.search(name):
                yield from texts(node.value)
            case ast.ClassDef(name=name) if name.endswith(("Error", "Exception", "Warning")):
                yield from (text for each in node.body if isinstance(each, ast.FunctionDef) for text in texts(each))
            case _:
                pass


def settings(tree: ast.Module) -> Iterator[str]:
    """Parameters of functions and fields of classes: how Torch-TensorRT names its settings."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case _:
                pass


def texts(node: ast.AST) -> Iterator[str]:
    yield from (each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str))


def sentences(folder: Path) -> Iterator[str]:
    """Printable strings of the shared libraries that read like a message: three words in a row, and no code."""
    for pattern in LIBRARIES:
        for library in sorted(folder.glob(pattern)):
            found = subprocess.run(["strings", "-n", "12", str(library)], capture_output=True, check=True)
            for text in set(found.stdout.decode("ascii", "replace").splitlines()):
                if _METHOD.fullmatch(text) or (len(text) < 1000 and _SENTENCE.search(text) and not _CODE.search(text)):
                    yield text


def words_of(text: str) -> set[str]:
    return {word.strip(_TRIMMED) for word in _SPLIT.split(text)} - {""}


def names(folder: Path) -> frozenset[str]:
    """First names, and the most frequent surnames, in lower case."""

    def column(file: str) -> list[str]:
        return [line.split()[0].lower() for line in (folder / file).read_text("ascii").splitlines()]

    return frozenset(
        [*column("dist.female.first"), *column("dist.male.first"), *column("dist.all.last")[:SURNAMES]],
    )


class Choice:
    """Which of the words found are kept."""

    def __init__(self, english: list[str], people: frozenset[str]) -> None:
        self._english = frozenset(word for word in english if word.islower() or word == "I")
        self._left_out = people | NUMBERS | DATES | AFFAIRS | COMPANIES

    def kept(self, python: dict[str, int], native: dict[str, int], classes: set[str]) -> set[str]:
        found = {*python, *native}
        plain = {
            word
            for word in found
            if _PLAIN.fullmatch(word) and self._is_plain(word, python.get(word, 0), native.get(word, 0))
        }
        builtin = {name for name in BUILTINS if name.lower() not in self._left_out or name in KEPT}
        kept = {*plain, *TERMS, *TYPES, *keyword.kwlist, *builtin} - NUMBERS
        compounds = {word for word in found if _COMPOUND.fullmatch(word) and self._is_compound(word, plain)}
        named = {
            word
            for word in {*found, *classes}
            if (python.get(word, 0) or word in classes or native.get(word, 0) > 1 or _METHOD.fullmatch(word))
            and self._is_identifier(word, python)
        }
        return kept | compounds | named

    def _is_plain(self, word: str, python: int, native: int) -> bool:
        lower = word.lower()
        if word in KEPT or word in NEEDED_PRODUCTS or word in SHORT_WORDS:
            return True
        if lower in self._left_out or not (word.islower() or word.istitle() or word.isupper()):
            return False
        if lower in self._english:
            return len(word) > 2 and (python > 0 or native > 2)
        return len(word) > 2 and (python > 2 or (python > 0 and native > 1))

    def _is_compound(self, word: str, plain: set[str]) -> bool:
        """`non-contiguous`, `doesn't`, `and/or`: each part is a word that is kept."""
        if word in self._english and "'" in word:
            return word.split("'", maxsplit=1)[0].lower() not in self._left_out
        parts = re.split(r"[-'/]", word)
        return all(part in plain or (index and part in {"s", "t", "d"}) for index, part in enumerate(parts))

    def _is_identifier(self, word: str, python: dict[str, int]) -> bool:
        """`min_block_size`, `torch.export`, `IBuilder::buildEngine`: at least two parts, none a number, not all names."""
        if (
            not _IDENTIFIER.fullmatch(word)
            or _LONG_NUMBER.search(word)
            or len(word) > 80
            or word.lower() in self._left_out
        ):
            return False
        if not word.startswith(("torch.", "nn.")) and any(
            part.istitle() and part.lower() in self._english for part in word.split(".")[1:]
        ):
            return False  # two sentences without a space between them
        if len(word) < 4:
            return False
        is_made_of_parts = "_" in word.strip("_") or "." in word or "::" in word or _CAMEL.fullmatch(word)
        parts = [part.lower() for part in _HUMPS.findall(word)]
        if not is_made_of_parts and not (word in python and re.search(r"\d", word) and len(parts) == 1):
            return False
        return not any(part in NUMBERS - {"zero", "one", "ones", "zeros"} for part in parts) and not all(
            part in self._left_out and part not in KEPT for part in parts
        )


if __name__ == "__main__":
    main()
