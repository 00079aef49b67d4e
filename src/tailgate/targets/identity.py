# SPDX-License-Identifier: GPL-2.0-only
"""The identity of a run: everything that decides its figures, by name. A run's folder is named after its
hash.

Two runs with the same identity give the same figures, on any host. The identity leaves out what only changes
the presentation, such as titles and the paper's numbers, and comments and docstrings of the lab's Python
code.
"""

import ast
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from tailgate.load.loads import Loads
from tailgate.runs import record
from tailgate.spec.drive import Drive
from tailgate.spec.plan import Run

#: The package tailgate.
PACKAGE = Path(__file__).resolve().parents[1]
#: Packages and modules that decide no figure although modules that do import them: errors, paths and
#: progress; places of records; the definition of a target; readers of files whose content is in the identity.
DECIDE_NOTHING = frozenset(
    {"base", "guest/kernels.py", "runs/folder.py", "spec/extends.py", "spec/toml.py", "targets/protocol.py"}
)
#: Parts of an experiment that are left out: its presentation, and the parts that `asked` adds as far as they
#: are used.
NOT_OF_EXPERIMENT: Mapping[str, Any] = {
    **dict.fromkeys(("extends", "title", "paper", "drive", "modes", "schedulers", "variants"), True),
    "sweeps": {"__all__": {"keys", "row", "lines", "in_tables"}},
    "machine": {"simulated"},
}


def key(identity: Mapping[str, object]) -> str:
    """The name of a run's folder. The order of tables matters too: the first real-time flow ends a point."""
    return digest(json.dumps(identity).encode())[:12]


def digest(*parts: bytes) -> str:
    """A hash of these contents in their order."""
    out = hashlib.sha256()
    for part in parts:
        out.update(len(part).to_bytes(8) + part)
    return out.hexdigest()


def asked(run: Run, loads: Loads, drive: Drive) -> dict[str, object]:
    """The parts of the identity that all targets share: the experiment as requested, its files, the drive."""
    spec = run.spec
    variants = [spec.variants[i] for i in run.variants]
    return {
        "records": record.VERSION,
        "experiment": spec.model_dump(mode="json", exclude=dict(NOT_OF_EXPERIMENT)),
        "mode": run.mode.model_dump(mode="json"),
        "schedulers": [s.model_dump(mode="json", exclude={"paper"}) for s in run.schedulers],
        "variants": [v.model_dump(mode="json", exclude={"title", "modes"}) for v in variants],
        "jobs": {file.name: digest(file.read_bytes()) for file in loads.files},
        "traces": {name: digest(text.encode()) for name, text in loads.traces.items()},
        "drive": {name: parameter.value for name, parameter in drive.parameters.items()},
    }


def files(paths: Collection[str], package: Path = PACKAGE) -> dict[str, str]:
    """Hashes of other files of the package, by path; for a folder, of all its files but README and
    Python's.
    """
    found: dict[str, str] = {}
    for path in (package / name for name in paths):
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.name != "README.md" and "__pycache__" not in file.parts:
                found[str(file.relative_to(package))] = digest(file.read_bytes())
    return found


def code(roots: Collection[str], package: Path = PACKAGE) -> dict[str, str]:
    """Hashes of the lab's modules in `roots`, and of the modules that these import, except DECIDE_NOTHING.

    Modules are named by their paths below `package`. ValueError if one in DECIDE_NOTHING does not exist.
    """
    for name in DECIDE_NOTHING:
        if not (package / name).exists():
            raise ValueError(f"DECIDE_NOTHING: there is no {name}")
    found: dict[str, str] = {}
    left = list(roots)
    while left:
        path = left.pop()
        if path in found or path in DECIDE_NOTHING or path.partition("/")[0] in DECIDE_NOTHING:
            continue
        tree = ast.parse((package / path).read_text())
        found[path] = digest(_without_docstrings(tree).encode())
        left += _imports(tree, package)
    return dict(sorted(found.items()))


def _without_docstrings(tree: ast.Module) -> str:
    """The source without docstrings; the tree has no comments."""
    for node in list(ast.walk(tree)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and (
            ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _imports(tree: ast.Module, package: Path) -> Iterator[str]:
    """The paths of the modules of the package that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            first, *words = name.split(".")
            path = "/".join(words) + ".py"
            if first == package.name and words and (package / path).is_file():
                yield path
