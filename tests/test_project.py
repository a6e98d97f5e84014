"""What the project promises around the code: README, versions, citations, light imports."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

import maxmargin
from maxmargin import MaxMarginClustering
from maxmargin._base import BaseMarginClustering

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
README = (ROOT / "README.md").read_text()
SETUP = 'python3 -m venv .venv && .venv/bin/pip install {} -e ".[{}]" && .venv/bin/{}\n'
OPTIONAL = {
    "dask",
    "pandas",
    "matplotlib",
    "pyarrow",
    "torch",
    "rich",
    "skops",
    "PIL",
    "polars",
    "psutil",
    "scs",
}


def modules_after(code: str) -> set[str]:
    """Top-level packages that a fresh interpreter has imported after running the code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    "options, extra, runs",
    [("-q", "demo", "maxmargin demo"), ("-q --no-compile", "test", "python -m pytest -n 2")],
)
def test_readme_has_the_command_and_its_extra_is_real(options, extra, runs):
    assert README.count(SETUP.format(options, extra, runs)) == 1
    assert PYPROJECT["project"]["optional-dependencies"][extra]


def test_readme_opens_with_three_sentences_and_a_picture():
    title, what, picture, *_ = README.split("\n\n")
    assert title == "# maxmargin"
    assert len(re.findall(r"[.](?:\s|$)", what)) == 3
    path = re.fullmatch(r"!\[.*\]\((.*)\)", picture, re.S)
    assert path and 0 < (ROOT / path[1]).stat().st_size < 200_000


def test_readme_example_runs(capsys):
    example = re.search(r"```python\n(.*?)```", README, re.S)
    assert example and len([line for line in example[1].splitlines() if line]) <= 10
    exec(example[1], {})
    assert capsys.readouterr().out.endswith("True\n")


def test_readme_is_short():
    assert len(README.splitlines()) <= 150


def test_readme_shows_the_summary_of_the_benchmarks():
    page = (ROOT / "docs/benchmarks.md").read_text()
    table = re.search(r"## Summary.*?\n\n(\|.*?)\n\n", page, re.S)[1]
    assert f"<!-- benchmarks: begin -->\n\n{table}\n\n<!-- benchmarks: end -->" in README


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("column", range(4))
def test_the_comparison_in_the_readme_is_true(column):
    model = [MaxMarginClustering, KMeans, GaussianMixture, HDBSCAN][column]()
    parameters = model.get_params()
    number = {"n_clusters", "n_components"} & parameters.keys()
    model.set_params(**dict.fromkeys(number, 2))
    if "random_state" in parameters:
        model.set_params(random_state=0)
    X, moons = make_moons(200, noise=0.05, random_state=0)
    labels = model.fit_predict(X)
    takes = inspect.signature(model.fit).parameters
    facts = {
        "the number of clusters can be given": bool(number),
        "the number of clusters can be left out": all(parameters[n] is None for n in number),
        "finds two moons with little noise (.05; in the picture .08)": adjusted_rand_score(
            moons, labels
        )
        > 0.95,
        "predicts new rows": hasattr(model, "predict"),
        "probability of each cluster for each row": hasattr(model, "predict_proba"),
        "marks outliers": hasattr(model, "is_outlier") or type(model) is HDBSCAN,
        "learns from some known labels": "partial_labels" in takes,
        "must-links and cannot-links": "constraints" in takes,
        "sparse rows": model.__sklearn_tags__().input_tags.sparse,
        "sample weights": "sample_weight" in takes,
        "similarities or distances instead of rows": any(
            "precomputed" in str(option)
            for name in ("kernel", "metric")
            for option in model._parameter_constraints.get(name, [])
        ),
        "files larger than memory, dask, GPU": isinstance(model, BaseMarginClustering),
    }
    table = re.search(r"<!-- comparison: begin -->(.*)<!-- comparison: end -->", README, re.S)[1]
    rows = [line.strip("| ").split(" | ") for line in table.strip().splitlines()[2:]]
    told = {name: said[column] == "yes" for name, *said in rows}
    assert told == facts


def test_links_between_pages_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for text, target in re.findall(r"\[([^\]]*)\]\(([^)#:]+)\)", page.read_text()):
            assert text, f"{page.name}: the link to {target} has no text, so GitHub shows nothing"
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_version_is_told_once():
    assert PYPROJECT["tool"]["hatch"]["version"]["path"] == "src/maxmargin/__init__.py"
    assert "version" not in PYPROJECT["project"]
    assert "version" not in yaml.safe_load((ROOT / "CITATION.cff").read_text())
    released = maxmargin.__version__.removesuffix(".dev0")
    assert f"## [{released}]" in (ROOT / "CHANGELOG.md").read_text()


def test_citation_has_the_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0" and citation["authors"] and citation["message"]
    papers = citation["references"]
    assert len({paper["title"] for paper in papers}) == 8
    for paper in papers:
        assert {"type", "title", "authors", "year"} <= paper.keys()
        assert paper.get("journal") or paper.get("collection-title")


IN_REFERENCE = re.findall(r"^   ([\w.]+)$", (ROOT / "docs/reference.md").read_text(), re.M)


@pytest.mark.parametrize("name", IN_REFERENCE)
def test_pages_of_the_reference_have_an_example_and_lead_to_others(name):
    module, _, _ = f"maxmargin.{name}".rpartition(".")
    text = getattr(importlib.import_module(module), name.rpartition(".")[2]).__doc__
    assert re.search(r"See Also\n\s*-{8}\n *\S", text)
    assert re.search(r"Examples\n\s*-{8}\n.*>>> ", text, re.S)


def test_every_public_name_has_a_page_in_the_reference():
    public = set(maxmargin.__all__) - {"__version__"}
    assert public <= set(IN_REFERENCE) and public <= set(dir(maxmargin))


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="has no attribute 'KMeans'"):
        _ = maxmargin.KMeans


@pytest.mark.parametrize("module", ["maxmargin", "maxmargin.cli"])
def test_the_package_itself_imports_nothing_heavy(module):
    assert not modules_after(f"import {module}") & {"numpy", "scipy", "sklearn", "numba"}


def test_estimators_import_no_extra():
    base = modules_after("import sklearn.cluster, sklearn.svm, numba")
    ours = modules_after("from maxmargin import SemidefiniteMarginClustering, segment_image")
    assert not (ours - base) & OPTIONAL


def test_the_reproduction_is_in_the_source_archive_but_not_in_the_wheel():
    targets = PYPROJECT["tool"]["hatch"]["build"]["targets"]
    assert targets["wheel"] == {"packages": ["src/maxmargin"]}
    assert {"src", "reproduction", "tests"} <= set(targets["sdist"]["include"])
    code = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    assert not re.search(r"^\s*(?:from|import) reproduction\b", code, re.M)


def test_the_classifiers_name_the_supported_versions():
    supported = [c for c in PYPROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert PYPROJECT["project"]["requires-python"] == ">=3.11"
    assert [c.rpartition(" ")[2] for c in supported] == ["3.11", "3.12", "3.13", "3.14"]


def test_the_workflow_runs_the_steps_of_the_gate():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    versions = [c.rpartition(" ")[2] for c in PYPROJECT["project"]["classifiers"] if "3." in c]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == versions
    gate = (ROOT / ".ci/run").read_text()
    steps = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    for command in (
        "-m invariance --disable-warnings tests",
        "tests/smoke.py",
        "tests/fuzz.py --seconds 60 --jobs 2 --seed 0",
        'tests/_data/test_device.py -k "cpu"',
        "sphinx -q -W --keep-going -j 2 docs docs/_build",
        ".ci/pages.py",
        ".ci/wheel",
        "ruff check",
        "ruff format --check",
        "mypy",
        ".ci/docstrings.py",
    ):
        assert command in gate and any(command in step for step in steps), command


# -- who may know what ----------------------------------------------------------------------------

PACKAGE = ROOT / "src" / "maxmargin"
PROGRAMS = sorted(
    path
    for folder in ("benchmarks", "docs", "examples", "reproduction", ".ci", "tests")
    for path in (ROOT / folder).rglob("*.py")
)
METHODS = ("alternating", "cutting_plane", "least_squares", "pairwise", "semidefinite")
STORAGE = "dask|torch|cupy|RowBlocks|LazyRows|DaskRows|DeviceRows|TensorRows|HostTensorRows"
KNOW_STORAGE = ("_base.py", "io.py", "_data/", "cli/")


def code_words(path):
    """Names and strings of a module, without docstrings."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node) is not None
    }
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute, ast.alias, ast.ImportFrom)):
            yield next(str(getattr(node, a)) for a in ("id", "attr", "name", "module")
                       if hasattr(node, a))  # fmt: skip
        elif isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield str(node.value)


def test_only_the_data_layer_knows_where_rows_are():
    for path in PACKAGE.rglob("*.py"):
        if not path.relative_to(PACKAGE).as_posix().startswith(KNOW_STORAGE):
            named = [word for word in code_words(path) if re.search(STORAGE, word)]
            assert not named, f"{path.name} names {named}"
    assert any(re.search(STORAGE, word) for word in code_words(PACKAGE / "_data/dask.py"))


@pytest.mark.parametrize("method", METHODS)
def test_no_method_imports_another(method):
    for path in (PACKAGE / method).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 2:
                first = (node.module or node.names[0].name).partition(".")[0]
                assert first not in METHODS, f"{path.name} imports {first}"


@pytest.mark.parametrize("method", METHODS)
def test_a_method_opens_with_its_problem_and_its_equations(method):
    text = ast.get_docstring(ast.parse((PACKAGE / method / "__init__.py").read_text()))
    assert ".. math::" in text and re.search(r"^in the paper +here$", text, re.M)


def test_programs_import_what_is_there():
    assert len(PROGRAMS) > 100
    for path in PROGRAMS:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("maxmargin"):
                place = ROOT.joinpath("src", *node.module.split("."))
                written = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
                there = set(re.findall(r"\w+", written.read_text()))
                there |= {inner.stem for inner in place.glob("*")}
                missing = {alias.name for alias in node.names} - there - {"*"}
                assert not missing, f"{path}: {node.module} has no {missing}"
