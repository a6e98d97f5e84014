"""A few hostile fits of ``tests/fuzz.py``; the program itself runs thousands."""

import pytest

from .fuzz import NAMES, make_case, run_case


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_hostile_fits_end_well(number):
    for index in range(number, 6 * len(NAMES), len(NAMES)):
        result = run_case(make_case(2026, index))
        defects = [text for text in result.defects if not text.startswith("slow")]
        assert not defects, f"python tests/fuzz.py --seed 2026 --case {index}: {defects}"
