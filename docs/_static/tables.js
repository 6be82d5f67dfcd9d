// Tables that do not fit a telephone. Numbers may leave their errors, and if that is not enough, rows become cards, in which
// every cell says what its column is called. Rows of sentences are cards at once.
document.addEventListener("DOMContentLoaded", () => {
  const isNarrow = matchMedia("(max-width: 40em)");
  const tables = [...document.querySelectorAll("article table")].filter((table) => table.tHead);
  let width = 0;
  // Telephones also report a change of the height, while the reader scrolls.
  const fit = () => {
    if (innerWidth !== width && isNarrow.matches) tables.forEach(fitTable);
    width = innerWidth;
  };
  fit();
  addEventListener("resize", fit);
});

function fitTable(table) {
  const box = table.closest(".table-wrapper, .output") ?? table.parentElement;
  const fits = () => box.scrollWidth <= box.clientWidth + 1;
  table.classList.remove("cards");
  if (!table.dataset.named) nameCells(table);
  if (hasSentences(table)) return table.classList.add("cards");
  if (fits()) return;
  const texts = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replace(/\u00a0(?=±|to)|(?<=to)\u00a0/g, " ");
  if (!fits()) table.classList.add("cards");
}

// Whether rows have at least three cells, and one beside the first is so long that a third of the width breaks it often.
function hasSentences(table) {
  return rowsOf(table).some((row) => row.length > 2 && row.slice(1).some((cell) => cell.textContent.trim().length > 36));
}

// Give cells the names of their columns, and the first one with a text the look of a heading. Columns of long cells get a
// line for each cell, and others share lines.
function nameCells(table) {
  table.dataset.named = "yes";
  const [corner, ...others] = [...[...table.tHead.rows].at(-1).cells].map((cell) => cell.textContent.trim());
  const isNumber = (text) => /^[\d.,]+$/.test(text);
  // The corner says what the numbers beside it are.
  const names = [corner, ...others.map((name) => (isNumber(name) ? `${corner} ${name}`.trim() : name))];
  const rows = rowsOf(table);
  const isLong = names.map((name, column) => rows.some((row) => `${name}: ${row[column]?.textContent.trim()}`.length > 24));
  for (const row of rows) {
    const first = row.findIndex((cell) => cell.textContent.trim());
    for (const [column, cell] of row.entries()) {
      const text = cell.textContent.trim();
      // A number alone is no heading.
      if (names[column] && (column !== first || isNumber(text))) cell.dataset.column = names[column];
      cell.classList.toggle("nothing", !text);
      cell.classList.toggle("heading", column === first);
      cell.classList.toggle("long", isLong[column]);
    }
  }
}

function rowsOf(table) {
  return [...table.tBodies].flatMap((body) => [...body.rows].map((row) => [...row.cells]));
}
