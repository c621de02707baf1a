"""What is built from the repository: archives of the package alone, and the README followed where it is installed.

The installed package runs in an empty environment, in a folder whose own `isa`, `compiler`, `simulator`, `rtl` and
`codesign` raise when they are imported.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.document import Block, blocks

FOLDERS = ("codesign", "compiler", "isa", "rtl", "simulator")
"""The folders of the repository that are parts of the package, linked into it."""

DATA = (
    *("tilewright/py.typed", "tilewright/rtl/simulation/bench.cpp"),
    *("tilewright/isa/specs/base16.yaml", "tilewright/isa/specs/machine.schema.json"),
    "tilewright/codesign/processes/sg13g2/process.yaml",
    *(f"tilewright/codesign/processes/sg13g2/{name}.csv" for name in ("cells", "srams", "arcs", "pins")),
)
"""Files of the package that no import needs, but its users do."""

CHECKOUT_ONLY = ("make ", ". .venv/bin/activate")
"""Commands of the README that are for the repository."""


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment with the wheel, and a folder in which its user works."""

    environment: Path
    folder: Path

    def run(self, command: str) -> str:
        """What a shell command prints; everything in the user's folder comes first on Python's path."""
        path = os.pathsep.join([str(self.environment / "bin"), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(self.folder), "COLUMNS": "80"}
        done = subprocess.run(command, shell=True, cwd=self.folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def archives(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive."""
    folder = tmp_path_factory.mktemp("archives")
    build("wheel", repository, folder)
    build("sdist", repository, folder)
    return folder


@pytest.fixture(scope="module")
def installed(archives: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in an environment that borrows only what it depends on; programs/ and hostile modules in the folder."""
    environment, folder = tmp_path_factory.mktemp("environment"), tmp_path_factory.mktemp("user")
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel_of(archives))], check=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(environment)})
    # Paths of a .pth file are searched, but the .pth files there are not read: no editable Tilewright comes with them.
    borrowed = [path for path in sys.path if path.endswith("-packages")]
    Path(packages, "borrowed.pth").write_text("\n".join(borrowed))
    (folder / "programs").symlink_to(repository / "programs")
    write_hostile_modules(folder)
    return Installed(environment, folder)


def build(target: str, project: Path, folder: Path) -> None:
    """Build a wheel or a source archive with the backend itself, which downloads nothing."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)


def wheel_of(folder: Path) -> Path:
    [wheel] = folder.glob("*.whl")
    return wheel


def write_hostile_modules(folder: Path) -> None:
    """Modules and packages with the names of ours, which nobody may import."""
    for name in FOLDERS:
        package = folder / name
        package.mkdir()
        (package / "__init__.py").write_text(f"raise ImportError('{name} of the user was imported')\n")
    for name in ("errors", "timing", "pipeline"):
        (folder / f"{name}.py").write_text(f"raise ImportError('{name} of the user was imported')\n")


# -- the archives ------------------------------------------------------------------------------------------------------


def test_the_wheel_holds_the_package_and_nothing_beside_it(archives: Path, repository: Path) -> None:
    with zipfile.ZipFile(wheel_of(archives)) as wheel:
        names = set(wheel.namelist())
    package = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
    modules = {
        str(path.relative_to(repository))
        for folder in (repository / "tilewright", *(repository / "tilewright" / name for name in FOLDERS))
        for path in folder.rglob("*.py")
    }
    assert {name.split("/")[0] for name in package} == {"tilewright"}
    assert {name for name in package if name.endswith(".py")} == modules
    assert set(DATA) <= package


def test_the_source_archive_makes_the_same_wheel(archives: Path, tmp_path: Path) -> None:
    [source] = archives.glob("*.tar.gz")
    shutil.unpack_archive(source, tmp_path)
    [project] = tmp_path.iterdir()
    build("wheel", project, tmp_path)
    assert wheel_of(tmp_path).read_bytes() == wheel_of(archives).read_bytes()


@pytest.mark.slow
def test_built_again_the_archives_are_the_same(archives: Path, repository: Path, tmp_path: Path) -> None:
    """Whatever the time and the files' own times: hatchling takes SOURCE_DATE_EPOCH, or a time of its own."""
    copy = tmp_path / "copy"
    shutil.copytree(repository, copy, symlinks=True, ignore=shutil.ignore_patterns(".git", "build", "__pycache__"))
    for target in ("wheel", "sdist"):
        for path in copy.rglob("*.md"):
            os.utime(path, (1_000_000_000, 1_000_000_000))
        build(target, copy, tmp_path)
    for first in archives.iterdir():
        assert (tmp_path / first.name).read_bytes() == first.read_bytes(), first.name


@pytest.mark.slow
def test_the_archives_say_what_an_index_shows(archives: Path) -> None:
    words = [sys.executable, "-m", "twine", "check", "--strict", *map(str, archives.iterdir())]
    checked = subprocess.run(words, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


# -- the README --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("tilewright", ["tilewright", "python -m tilewright"])
def test_the_readme_works_where_it_is_installed(installed: Installed, repository: Path, tilewright: str) -> None:
    followed = [follow(block, installed, tilewright) for block in blocks((repository / "README.md").read_text())]
    assert sum(followed) >= 9  # two of them on the hardware and of the machine file


@pytest.mark.slow
def test_the_imported_package_is_the_installed_one(installed: Installed) -> None:
    printed = installed.run("python -c 'import tilewright.isa.timing as timing; print(timing.__file__)'")
    assert Path(printed.strip()).is_relative_to(installed.environment)
    assert not Path(printed.strip()).is_symlink()


@pytest.mark.slow
def test_the_version_is_that_of_the_wheel(installed: Installed, archives: Path) -> None:
    assert installed.run("tilewright --version") == f"tilewright {wheel_of(archives).name.split('-')[1]}\n"


@pytest.mark.slow
def test_the_proofs_start_where_it_is_installed(installed: Installed) -> None:
    assert "python -m tilewright.rtl.proof" in installed.run("python -m tilewright.rtl.proof --help")


def follow(block: Block, installed: Installed, tilewright: str) -> int:
    """Do what a block of the README says; the number of commands that were run."""
    if block.file_name is not None:
        (installed.folder / block.file_name).write_text(block.text)
    if block.language == "python":
        (installed.folder / "example.py").write_text(block.text)
        assert installed.run("python example.py").strip().isdigit()
        return 1
    commands = [command for command in block.commands if not command.startswith(CHECKOUT_ONLY)]
    for command in commands:
        installed.run(shlex.join([*tilewright.split(), *shlex.split(command)[1:]]))
    return len(commands)
