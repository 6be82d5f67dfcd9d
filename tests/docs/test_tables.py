"""Tables of the pages on a telephone, in a real browser: none scrolls, and cards name what the columns name."""

from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "docs/_static"
NUMBERS = ["0.1355\xa0±\xa00.0032", "−0.0069\xa0±\xa00.0012"]
TABLES = {  # name -> head, row, and whether it is cards on a telephone
    "short": (["workers", "loss"], ["5", "0.1"], False),
    "errors": (["", *"abcde"], ["AdamW", *NUMBERS, *NUMBERS, ""], False),
    "wide": (["workers", *(f"learning_rate_{i}" for i in range(9))], ["5", *map(str, range(9))], True),
    "numbers": (["momentum", *"123456789"], ["the excess loss at delay 1", *[NUMBERS[0]] * 9], True),
    "sentences": (
        ["you have", "take", "why"],
        ["momentum", "dana", "it reads ahead of all of the other workers"],
        True,
    ),
    "two": (["name", "meaning"], ["dana", "it reads ahead of all of the other workers"], False),
}
WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def tables(browser, tmp_path_factory):
    """(width, name) -> whether it is cards, whether it scrolls, and (label, text) of the cells that are shown."""
    path = tmp_path_factory.mktemp("pages") / "page.html"
    path.write_text(
        "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<style>{text('pages.css')}"
        ".table-wrapper { overflow-x: auto } :is(td, th) { padding: 0 .25rem }</style>"
        f"<script>{text('tables.js')}</script><article>{''.join(html(*of) for of in TABLES.items())}</article>",
        encoding="utf-8",
    )
    page = browser.new_page()
    found = {}
    page.goto(f"file://{path}")
    for width in (*WIDTHS, WIDTHS[0]):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(50)
        found |= {(width, name): page.evaluate(SEEN, name) for name in TABLES}
    page.close()
    return found


SEEN = r"""(name) => {
  const table = document.getElementById(name), box = table.parentElement;
  const isShown = (cell) => getComputedStyle(cell).display !== "none";
  const strings = (cell) => [...getComputedStyle(cell, "::before").content.matchAll(/"(.*?)"/g)];
  const label = (cell) => strings(cell).map((string) => string[1]).join("").trim();
  const cells = [...table.tBodies[0].rows[0].cells].filter(isShown);
  return {
    isCards: getComputedStyle(table).display === "block", scrolls: box.scrollWidth > box.clientWidth + 1,
    cells: cells.map((cell) => [label(cell), cell.textContent.replace(/\s/g, " ")]),
  };
}"""


def text(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def html(name: str, table: tuple[list[str], list[str], bool]) -> str:
    head, row, _ = table
    rows = ("".join(f"<{tag}>{cell}</{tag}>" for cell in cells) for tag, cells in (("th", head), ("td", row)))
    return (
        f"<div class=table-wrapper><table class=docutils id={name}><thead><tr>{next(rows)}</tr></thead>"
        f"<tbody><tr>{next(rows)}</tr></tbody></table></div>"
    )


@pytest.mark.parametrize("name", TABLES)
def test_no_table_scrolls_on_a_telephone(tables, name):
    assert not tables[390, name]["scrolls"]
    assert tables[390, name]["isCards"] == TABLES[name][2]


@pytest.mark.parametrize("name", TABLES)
def test_a_wide_screen_shows_tables_also_after_it_was_narrow(tables, name):
    assert not tables[1280, name]["isCards"]


def test_cells_of_cards_say_what_their_column_is_called(tables):
    head, row, _ = TABLES["sentences"]
    assert tables[390, "sentences"]["cells"] == [["", row[0]], [f"{head[1]}:", row[1]], [f"{head[2]}:", row[2]]]


def test_a_number_alone_is_no_heading(tables):
    head, row, _ = TABLES["wide"]
    assert tables[390, "wide"]["cells"] == [[f"{name}:", cell] for name, cell in zip(head, row, strict=True)]


def test_columns_with_numbers_for_names_are_called_by_the_corner(tables):
    _, row, _ = TABLES["numbers"]
    named = [[f"momentum {place}:", cell.replace("\xa0", " ")] for place, cell in enumerate(row[1:], 1)]
    assert tables[390, "numbers"]["cells"] == [["", row[0]], *named]
