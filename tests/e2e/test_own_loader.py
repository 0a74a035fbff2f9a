"""``energon_toolkit`` is the library in every process: also in a program that has a ``loader`` of its own."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import loader
from loader.errors import ConfigError, FormatError
from tests.e2e.text_dataset import write_texts
from tests.installed_wheel import Environment, make_environment, unpack, what_mypy_says

OWN = {
    "loader.py": "name = 'mine'\nerrors = order = 5\n",
    "loader/__init__.py": "name = 'mine'\nfrom .errors import errors\n",
}
SAME = """\
import sys
import energon_toolkit, loader
import energon_toolkit.errors as errors
from energon_toolkit.samples.edataclass import edataclass
from energon_toolkit import get_train_dataset
from megatron.energon import ConfigError
import loader.samples.edataclass
assert energon_toolkit is loader and errors is sys.modules["loader.errors"] and errors.ConfigError is ConfigError
assert sys.modules["energon_toolkit.samples.edataclass"] is sys.modules["loader.samples.edataclass"]
assert loader.samples.edataclass is edataclass is loader.edataclass and edataclass.__module__ != "energon_toolkit"
twice = {name for name in sys.modules if name.partition(".")[0] == "energon_toolkit"}
assert all(sys.modules[name] is sys.modules["loader" + name.removeprefix("energon_toolkit")] for name in twice)
print(energon_toolkit.__name__, ConfigError.__module__)
"""
# Workers by each method; the first line imports the library in one of two orders, before or after its other name.
TRAIN = """\
{imports}
import json, os, sys
import loader
from loader import name


class Encoder(DefaultTaskEncoder):
    @stateless
    def encode_sample(self, sample):
        assert loader.name == name == "mine" and type(sample) is energon_toolkit.TextSample
        return sample


if __name__ == "__main__":
    for method in sys.argv[2:]:
        config = WorkerConfig(rank=0, world_size=1, num_workers=2)
        options = dict(batch_size=4, shuffle_buffer_size=None, max_samples_per_sequence=None, task_encoder=Encoder())
        dataset = energon_toolkit.get_train_dataset(sys.argv[1], worker_config=config, **options)
        with get_savable_loader(dataset, multiprocessing_context=method) as batches:
            texts = [text for _, batch in zip(range(6), batches) for text in batch.text]
            state = batches.save_state_rank()
        print(json.dumps({{"texts": texts, "state": state, "module": energon_toolkit.__name__}}))
    if os.environ.get("RANK") is None:
        assert "energon_toolkit.errors" in sys.modules and loader.name == "mine"
"""
USES = "from megatron.energon import DefaultTaskEncoder, WorkerConfig, get_savable_loader, stateless"
ORDERS = {
    "energon_toolkit first": f"import energon_toolkit\n{USES}",
    "megatron.energon first": f"import loader\n{USES}\nimport energon_toolkit",
}
METHODS = ("fork", "spawn", "forkserver")
FUNCTIONS = """\
import loader
from energon_toolkit import SkipSample

def score(sample):
    if loader.name != "mine":
        raise SkipSample
    return float(len(sample.text))
"""


def own_loader(folder: Path, kind: str) -> Path:
    """Write the program's own module or package."""
    theirs = folder / kind
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text(OWN[kind])
    if kind.endswith("__init__.py"):
        (theirs.parent / "errors.py").write_text("errors = 5\n")
    return theirs


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts") / "data")


@pytest.fixture(params=OWN)
def own_project(request: pytest.FixtureRequest, project: Path) -> Path:
    """Create the folder of a program with a module or a package of its own."""
    own_loader(project, request.param)
    return project


@pytest.fixture(params=["wheel", "editable", "target"])
def installed(
    request: pytest.FixtureRequest, wheels: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Environment:
    """Install this project as a wheel, editable, or into a folder on PYTHONPATH."""
    environment = make_environment(tmp_path / "venv")
    if request.param == "target":
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
        subprocess.run([*command, "--target", tmp_path / "target", wheels[0]], check=True, timeout=120)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "target"))
    else:
        unpack(wheels[request.param == "editable"], environment)
    return environment


def trained(environment: Environment, project: Path, *command: str | Path, order: str) -> list[dict[str, Any]]:
    (project / "train.py").write_text(TRAIN.format(imports=ORDERS[order]))
    done = environment.run("-W", "error::ImportWarning", *command, folder=project, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


# ------------------------------------------------------------------------------------ no other file is `loader`


def test_both_names_are_the_same_modules(environment: Environment, project: Path) -> None:
    assert environment.run("-W", "error", "-c", SAME, folder=project).stdout == "loader loader.errors\n"
    # The other name first.
    code = f"import megatron.energon, loader.samples.types, loader\nassert loader.edataclass\n{SAME}"
    assert environment.run("-W", "error", "-c", code, folder=project).stdout == "loader loader.errors\n"


def test_no_module_runs_twice(environment: Environment, project: Path) -> None:
    code = """\
        import collections, importlib._bootstrap as machinery
        times, load = collections.Counter(), machinery._load_unlocked

        def count_and_load(spec):
            times[spec.name] += 1
            return load(spec)

        machinery._load_unlocked = count_and_load
        import energon_toolkit.errors, energon_toolkit.storage.remote.clients.choice, energon_toolkit.engine
        print({name for name in times if times[name] > 1}, energon_toolkit.storage.__spec__.name)
    """
    assert environment.run("-c", textwrap.dedent(code), folder=project).stdout == "set() loader.storage\n"


def test_what_neither_has_is_named(environment: Environment, project: Path) -> None:
    for name in ("loader", "energon_toolkit"):
        code = f"import energon_toolkit\ntry: import {name}.nothing\nexcept ImportError as error: print(error)"
        assert environment.run("-c", code, folder=project).stdout == f"No module named '{name}.nothing'\n"
    code = "from energon_toolkit import get_trian_dataset"
    assert "did you mean 'get_train_dataset'" in environment.run("-c", code, folder=project, check=False).stderr


def test_the_working_folder_alone_takes_no_name(environment: Environment, project: Path) -> None:
    (project / "loader.py").write_text("raise SystemExit\n")
    done = environment.run("-P", "-c", SAME, folder=project)
    assert done.stdout == "energon_toolkit energon_toolkit.errors\n"  # commands add the folder to the path later


# ---------------------------------------------------------------------------------- the program has its own loader


@pytest.mark.parametrize("kind", OWN)
def test_the_library_and_the_commands_work(environment: Environment, project: Path, kind: str) -> None:
    theirs = own_loader(project, kind)
    code = """\
        import sys, pickle
        import energon_toolkit, loader, megatron.energon
        from energon_toolkit.parts import kinds
        from megatron.energon import ConfigError, edataclass
        from megatron.energon.tools.info import command
        assert ConfigError is energon_toolkit.ConfigError and edataclass is energon_toolkit.edataclass
        assert loader.errors == 5 and pickle.loads(pickle.dumps(ConfigError("x"))).message == "x"
        print(energon_toolkit.__name__, loader.__file__)
    """
    done = environment.run("-W", "error", "-c", textwrap.dedent(code), folder=project)
    assert done.stdout == f"energon_toolkit {theirs}\n"
    # The commands do not run the module.
    theirs.write_text("raise SystemExit('run')\n")
    shown = f"energon {loader.__version__}\n"
    assert environment.energon("--version", folder=project).stdout == shown
    assert environment.run("-m", "energon_cli", "--version", folder=project).stdout == shown
    failed = environment.run("-m", "energon_cli", "info", ".", folder=project, check=False)
    assert failed.stderr.startswith("error: no .tar files here"), failed.stderr


def test_pickles_pass_between_processes(environment: Environment, project: Path) -> None:
    own_loader(project, "loader.py")
    sample = loader.TextSample(__key__="a", __restore_key__=(), text="b")
    code = """\
        import pickle, sys
        {imports}
        sample, error, kind = pickle.load(open("theirs", "rb"))
        assert kind is megatron.energon.FormatError
        assert type(error) is megatron.energon.ConfigError and sample.text == "b"
        import loader
        assert loader.order == loader.errors == 5
        pickle.dump([sample, error], open("ours", "wb"))
    """
    code = textwrap.dedent(code)
    (project / "theirs").write_bytes(pickle.dumps([sample, ConfigError("x"), FormatError]))
    done = environment.run("-c", code.format(imports="import megatron.energon"), folder=project, check=False)
    assert done.returncode == 0, done.stderr
    program = "import energon_toolkit, pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))[0].__class__.__module__)"
    elsewhere = project.parent
    assert environment.run("-c", program, project / "ours", folder=elsewhere).stdout == "loader.samples.types\n"


def test_documents_name_the_library(environment: Environment, project: Path) -> None:
    own_loader(project, "loader.py")
    data = write_texts(project / "data", config="sample_type: {__module__: loader, __class__: TextSample}\n")
    (data / ".nv-meta/dataset.yaml").write_text(
        "sample_type: {__module__: loader, __class__: TextSample}\nfield_map: {text: txt}\n"
    )
    code = "import energon_toolkit, sys; print(type(energon_toolkit.open_dataset(sys.argv[1])[0]).__module__)"
    assert environment.run("-c", code, data, folder=project).stdout == "energon_toolkit.samples.types\n"


@pytest.mark.parametrize("has_own", [False, True])
def test_threads_import_it_at_once_and_it_can_be_loaded_again(
    environment: Environment, project: Path, has_own: bool
) -> None:
    if has_own:
        own_loader(project, "loader.py")
    code = """\
        import importlib, sys, threading
        sys.setswitchinterval(1e-5)
        names, together, seen = ["WorkerConfig", "edataclass", "ConfigError", "TextSample"], threading.Barrier(8), []

        def use(number):
            together.wait()
            if number % 2:
                import megatron.energon
            import energon_toolkit
            from energon_toolkit.errors import ConfigError
            assert ConfigError is energon_toolkit.ConfigError
            seen.append(getattr(energon_toolkit, names[number % 4]).__module__)

        threads = [threading.Thread(target=use, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        import energon_toolkit
        error = energon_toolkit.ConfigError
        assert importlib.reload(energon_toolkit) is energon_toolkit and energon_toolkit.ConfigError is error
        print(len(seen), {module.partition(".")[0] for module in seen} == {energon_toolkit.__name__})
    """
    done = environment.run("-c", textwrap.dedent(code), folder=project, check=False)
    assert (done.stdout, done.stderr) == ("8 True\n", "")


def test_states_are_the_same(environment: Environment, project: Path, texts: Path) -> None:
    own_loader(project, "loader.py")
    (shadowed,) = trained(environment, project, "train.py", texts, "fork", order="energon_toolkit first")
    assert shadowed.pop("module") == "energon_toolkit"
    # The same program with the module under another name.
    other = project.parent / "other"
    other.mkdir()
    (project / "loader.py").rename(other / "my_loader.py")
    text = (project / "train.py").read_text().replace("loader import", "my_loader import")
    (other / "train.py").write_text(text.replace("import loader\n", "import my_loader as loader\n"))
    done = environment.run("train.py", texts, "fork", folder=other)
    assert json.loads(done.stdout) == {**shadowed, "module": "loader"}


def test_a_map_calls_functions_that_import_it(environment: Environment, project: Path, texts: Path) -> None:
    own_loader(project, "loader.py")
    (project / "functions.py").write_text(FUNCTIONS)
    done = environment.energon("map", str(texts), "functions:score", "--show", "--limit", "2", folder=project)
    assert done.stdout.count("6.0") == 2, done.stderr


# ------------------------------------------------------------------------------------------- each kind of program


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_workers_of_every_method(
    installed: Environment, own_project: Path, texts: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    project = own_project
    runs = trained(installed, project, "train.py", texts, *METHODS, order=order)
    assert [run["module"] for run in runs] == ["energon_toolkit"] * 3
    assert runs[0] == runs[1] == runs[2]
    # A folder on PYTHONPATH has the module.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(project), os.environ.get("PYTHONPATH", "")]))
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    assert trained(installed, elsewhere, "train.py", texts, "spawn", order=order) == runs[:1]


@pytest.mark.slow
def test_a_folder_of_modules_without_init_is_the_programs_and_one_of_data_is_not(
    wheels: tuple[Path, Path], tmp_path: Path, project: Path
) -> None:
    environment = make_environment(tmp_path / "venv")
    unpack(wheels[0], environment)
    (project / "loader").mkdir()
    (project / "loader/mine.py").write_text("NAME = 'mine'\n")
    code = "import energon_toolkit\nfrom {} as value\nfrom megatron.energon import WorkerConfig\n"
    code += "print(WorkerConfig is energon_toolkit.WorkerConfig, value is energon_toolkit.get_loader, value)"
    (project / "train.py").write_text(code.format("loader.mine import NAME"))
    for folder in (project, tmp_path):
        assert environment.run(project / "train.py", folder=folder).stdout == "True False mine\n"
    (project / "loader/mine.py").rename(project / "loader/mine.txt")
    (project / "train.py").write_text(code.format("loader import get_loader"))
    for folder in (project, tmp_path):
        assert environment.run(project / "train.py", folder=folder).stdout.startswith("True True ")


@pytest.mark.slow
def test_a_program_that_is_named_loader(environment: Environment, project: Path, texts: Path) -> None:
    program = TRAIN.format(imports=ORDERS["energon_toolkit first"]).replace(
        "import loader\nfrom loader import name\n", ""
    )
    program = program.replace('loader.name == name == "mine" and ', "").replace(' and loader.name == "mine"', "")
    (project / "loader.py").write_text(program)
    done = environment.run("loader.py", texts, *METHODS, folder=project)
    assert len({*done.stdout.splitlines()}) == 1


@pytest.mark.slow
def test_the_helper_process_answers(environment: Environment, own_project: Path) -> None:
    code = """\
        import energon_toolkit
        from energon_toolkit.storage.remote.clients.helper_client import _Helper
        from energon_toolkit.storage.remote.object_url import parse_object_url
        from energon_toolkit.storage.remote.options import options_for
        url = "https://127.0.0.1:1/x"
        try:
            _Helper().call(parse_object_url(url), options_for(url), "no method", (), {})
        except energon_toolkit.StorageError as error:
            print(error.message)
    """
    done = environment.run("-c", textwrap.dedent(code), folder=own_project)
    assert done.stdout.startswith("the helper process failed: AttributeError"), done.stderr


@pytest.mark.slow
def test_torchrun(environment: Environment, project: Path, texts: Path) -> None:
    own_loader(project, "loader.py")
    (project / "train.py").write_text(TRAIN.format(imports=ORDERS["megatron.energon first"]))
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = environment.run(*launch, "train.py", texts, "spawn", folder=project)
    assert done.stdout.count('"module": "energon_toolkit"') == 2


@pytest.mark.slow
def test_profiles_and_plans_of_scripts(environment: Environment, project: Path, texts: Path) -> None:
    source = project / "source"
    source.mkdir()
    own_loader(source, "loader.py")
    (source / "train.py").write_text(TRAIN.format(imports=ORDERS["energon_toolkit first"]))
    done = environment.energon("profile", "source/train.py", str(texts), "fork", folder=project)
    assert "loader 0 of process" in done.stderr, done.stderr
    # The plan reaches the first loader of the script, which plans no groups.
    done = environment.energon("plan", "source/train.py", str(texts), "fork", folder=project)
    assert "are planned" in done.stderr, done.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("engine", ["processes", "dask", "ray"])
def test_engines(environment: Environment, own_project: Path, tmp_path: Path, engine: str) -> None:
    data = write_texts(tmp_path / "data")
    (own_project / "functions.py").write_text(FUNCTIONS)
    options = ["--engine", engine, "--num-workers", "2", "--write", "score", "--json"]
    done = environment.energon("map", str(data), "functions:score", *options, folder=own_project)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["samples"], report["failed"], report["skipped"]) == (218, 0, 0)


@pytest.mark.slow
def test_type_checkers_see_the_types(wheels: tuple[Path, Path], tmp_path: Path, project: Path) -> None:
    (project / "loader.py").write_text("def mine() -> int:\n    return 1\n")
    dataset, values = what_mypy_says(
        wheels[0],
        tmp_path,
        project,
        library="energon_toolkit",
        imports=["from energon_toolkit.errors import ConfigError", "from loader import mine"],
        revealed=[
            'get_train_dataset("data", worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0))',
            '(ConfigError("x").hint, mine())',
        ],
    )
    assert dataset.endswith('"energon_toolkit.pipeline.contract.stage.SavableDataset[Any]"')
    assert values.endswith('"tuple[str | None, int]"')
