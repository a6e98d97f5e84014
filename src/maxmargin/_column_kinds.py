"""The kind of a column by its values, and the format in which they are read."""

from __future__ import annotations

from typing import Any

from ._files import needed

KINDS = ("number", "log", "category", "date", "text", "drop")
MAX_LEVELS = 20  # of a category; rarer ones are pooled
MOST = 0.95  # share of the cells that must be numbers or dates
TEXT_WORDS = 5  # words per cell, on average, of free text; names have fewer
LOOKED_AT = 10_000  # cells of which formats are guessed
# Decimal separator, separator of thousands, and what such numbers look like.
NUMBERS = {
    (".", ""): r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?inf(?:inity)?",
    (".", ","): r"[-+]?\d{1,3}(?:,\d{3})*(?:\.\d+)?",
    (",", ""): r"[-+]?(?:\d+,?\d*|,\d+)(?:[eE][-+]?\d+)?",
    (",", "."): r"[-+]?\d{1,3}(?:\.\d{3})*(?:,\d+)?",
}
SIGNS = r"[\s%€$£]+"  # left out of numbers, like spaces between thousands
DATES = tuple(
    f"{day}{time}"
    for day in ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y",
                "%m/%d/%y", "%d %b %Y", "%b %d, %Y", "%Y-%m-%dT")
    for time in ("", " %H:%M", " %H:%M:%S")
)  # fmt: skip


def kind_of(present: Any, given: str | None) -> tuple[str, dict[str, Any]]:
    """Return the kind of values, none of which is missing, and how they are read."""
    types = needed("pandas.api.types")
    options: dict[str, Any]
    if types.is_bool_dtype(present) or all(map(types.is_bool, present[:100])):
        kind, options = "category", {}
    elif types.is_datetime64_any_dtype(present):
        kind, options = "date", {"format": None}
    elif types.is_numeric_dtype(present):
        kind, options = "number", {}
    else:
        kind, options = _kind_of_strings(present.astype(str).str.strip())
    wanted = "number" if given == "log" else given
    if wanted is not None and wanted != kind:
        kind, options = wanted, _format(wanted, present.astype(str).str.strip())[1]
    return kind, options | ({"log": True} if given == "log" else {})


def _kind_of_strings(strings: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of text, and the options with which it is read."""
    some = strings[:LOOKED_AT]
    if some.str.contains(r"\d").mean() >= MOST:
        for kind in ("number", "date"):
            share, options = _format(kind, some)
            if share >= MOST:
                return kind, options
    if some.str.split().str.len().mean() >= TEXT_WORDS and strings.nunique() > MAX_LEVELS:
        return "text", {}
    return "category", {}


def _format(kind: str, strings: Any) -> tuple[float, dict[str, Any]]:
    """Return the share of text that the best format of numbers or dates reads, and its options."""
    to_datetime = needed("pandas").to_datetime
    shares: dict[tuple, float] = {(): 0.0}
    if kind == "number":
        bare = strings[:LOOKED_AT].str.replace(SIGNS, "", regex=True)
        shares = {style: float(bare.str.fullmatch(form).mean()) for style, form in NUMBERS.items()}
    elif kind == "date":
        few = strings[:LOOKED_AT].drop_duplicates()[:1000]
        read = ((form, to_datetime(few, format=form, errors="coerce")) for form in DATES)
        shares = {(form,): float(dates.notna().mean()) for form, dates in read}
    best = max(shares, key=lambda style: shares[style])  # the first of equal ones
    names = ("decimal", "thousands") if kind == "number" else ("format",)
    return shares[best], dict(zip(names, best))
