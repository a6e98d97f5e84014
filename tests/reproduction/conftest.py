"""What the tests of the reproduction share."""

import pytest

from reproduction.__main__ import main


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    """Tests never see the papers' files, only what scikit-learn ships."""
    monkeypatch.delenv("MAXMARGIN_DATA", raising=False)


@pytest.fixture(scope="session")
def quick(tmp_path_factory):
    """A quick study of one table with nothing but what scikit-learn ships, as pages."""
    folder = tmp_path_factory.mktemp("papers")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MAXMARGIN_DATA", raising=False)
        line = ["least_squares:table-1", "least_squares:figure-3", "--quick", "--offline"]
        assert main([*line, "--out", str(folder)]) == 0
    return folder
