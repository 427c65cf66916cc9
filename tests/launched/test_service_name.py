# SPDX-License-Identifier: Apache-2.0
"""`service.name` where none is set: a plain name as a whole, or the interpreter's."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from torchspan.start.launched.provider import service_name


@pytest.fixture
def main(monkeypatch):
    """Put a module, or another object, in place of the program's main module."""

    def call(found=None, *, file=None, module=None):
        if found is None:
            found = ModuleType("__main__")
            found.__file__ = file
            found.__spec__ = module and ModuleSpec(module, None)
        monkeypatch.setitem(sys.modules, "__main__", found)
        monkeypatch.setattr(sys, "executable", "/opt/venv/bin/python3.11")

    return call


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/srv/alice/acme/train.py", "train.py"),
        ("train", "train"),
        ("/srv/app-2.1/serve_v2.py", "serve_v2.py"),
        ("/srv/shop/__main__.py", "shop"),
        ("/srv/shop.pyz/__main__.py", "shop.pyz"),
        ("__main__.py", "__main__.py"),
        ("a" * 61 + ".py", "a" * 61 + ".py"),
    ],
)
def test_it_is_the_name_of_the_script_or_of_what_holds_it(main, file, expected):
    main(file=file)
    assert service_name() == expected


@pytest.mark.parametrize(
    ("module", "expected"), [("app.main", "app.main"), ("app.__main__", "app"), ("_private", "_private")]
)
def test_it_is_the_name_of_the_module(main, module, expected):
    main(module=module, file="/srv/other.py")
    assert service_name() == expected


NO_NAMES = [
    "HF_TOKEN=hf_SECRETsecret DB_PASSWORD=hunter2 python app.py",
    "OPENAI_API_KEY=sk-live-4711 python run.py",
    "TOKEN=sk-live.py",
    "alice@example.com.py",
    "patient jane doe.py",
    "jane\tdoe.py",
    "app.py\n",
    "\x1b]0;title\x07.py",
    "app\u202eyp.py",
    "größe.py",
    "推論.py",
    "a" * 62 + ".py",
    "a" * 200_000,
    "~alice.py",
    "$HOME.py",
    "100%.py",
    "a:b.py",
    "a+b.py",
    "'quoted'.py",
    "(jane).py",
    "\udc80.py",
]


@pytest.mark.parametrize("name", NO_NAMES, ids=range(len(NO_NAMES)))
def test_of_what_is_not_a_plain_name_no_part_is_taken(main, name):
    main(file=f"/srv/{name}")
    assert service_name() == "python3.11"
    main(file=f"/srv/{name}/__main__.py")
    assert service_name() == "python3.11"


@pytest.mark.parametrize("name", [*NO_NAMES, "SECRET message", "models/acme", "app-main", "app..main", "1.2", ""])
def test_a_module_whose_name_is_not_a_path_of_identifiers_is_not_named(main, name):
    main(module=name)
    assert service_name() == "python3.11"


@pytest.mark.parametrize(
    ("executable", "expected"),
    [
        ("/opt/venv/bin/python3.11", "python3.11"),
        ("/opt/customer acme", "python"),
        ("/opt/TOKEN=sk-live", "python"),
        ("", "python"),
        (None, "python"),
    ],
)
def test_without_a_script_it_is_the_interpreter_if_its_name_is_plain(main, monkeypatch, executable, expected):
    main()
    monkeypatch.setattr(sys, "executable", executable)
    assert service_name() == expected


class Hostile:
    """Runs when it is asked for anything."""

    def __getattribute__(self, name):
        raise SystemExit(name)

    def __bool__(self):
        raise SystemExit

    __str__ = __fspath__ = __eq__ = __hash__ = __bool__


class Text(str):
    __slots__ = ()

    def __str__(self):
        raise SystemExit

    __fspath__ = __eq__ = __hash__ = __str__


class Module(ModuleType):
    @property
    def __file__(self):
        raise SystemExit

    @property
    def __spec__(self):
        raise SystemExit


def test_what_the_program_put_in_place_of_its_main_module_does_not_run(main):
    spec = ModuleSpec("app", None)
    spec.name = Text("app")
    with_hostile_values = ModuleType("__main__")
    for file, found in ((Hostile(), Hostile()), (Text("app.py"), spec)):
        with_hostile_values.__file__, with_hostile_values.__spec__ = file, found
        main(with_hostile_values)
        assert service_name() == "python3.11"
    for found in (Hostile(), Module("__main__")):
        main(found)
        assert service_name() == "python3.11"
