"""A command that opens files in one folder only: `python -m tilewright.agents.confined FOLDER word…`.

The server looks at the paths of a call itself. Files may name others, such as a machine the one that it extends: this
process refuses to open what is neither in the folder nor a part of the installation, a cache or a temporary file.
"""

from __future__ import annotations

import errno
import os
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

SYSTEM = ("/proc", "/sys", "/dev", "/usr", "/lib", "/lib64", "/bin", "/etc/localtime", "/etc/ld.so.cache")
"""What Python and its libraries read by themselves."""


def main() -> None:
    """Run the command line in the folder."""
    folder, *words = sys.argv[1:]
    sys.argv = ["tilewright", *words]
    from tilewright.isa.folders.cache import cache_folder

    confine((Path(folder), cache_folder(), Path(tempfile.gettempdir()), *_installed()))
    runpy.run_module("tilewright", run_name="__main__")


def confine(folders: tuple[Path, ...]) -> None:
    """From now on, this process opens no file outside of these folders; PermissionError says so."""
    allowed = tuple({str(folder.resolve()) for folder in folders} | {*SYSTEM})

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes):
            return  # a number is a file that is open already
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if not any(path == folder or path.startswith(folder + os.sep) for folder in allowed):
            raise PermissionError(errno.EACCES, "outside of the folder that agents may use", arguments[0])

    sys.addaudithook(refuse)


def _installed() -> tuple[Path, ...]:
    """Where Python and its packages are, and this one."""
    package = Path(__file__).resolve().parents[1]
    linked = (entry.resolve() for entry in package.iterdir() if entry.is_symlink())
    return (
        *(Path(path) for path in {sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path} if path),
        package,
        *linked,
    )


if __name__ == "__main__":
    main()
